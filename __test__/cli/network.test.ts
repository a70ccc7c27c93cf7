/** The options for the network of isolated commands. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'
import { startOrigin } from '../helpers/origin.js'

const VALUE = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`
const origin = await startOrigin()
const host = `localhost:${origin.port}`
afterAll(() => origin.close())

it('a command uses a secret of a variable or a file that it never sees, within rules', () =>
  withCli(async ({ start, root }) => {
    const directory = path.dirname(root)
    const file = (name: string, text: string) => {
      writeFileSync(path.join(directory, name), text)
      return path.join(directory, name)
    }
    const authority = file('ca.pem', origin.authority)
    const secretFile = file('value', `${VALUE}\n`)
    const curl = (method: string, page: string) =>
      `curl -sS -X ${method} -H "Authorization: Bearer $TOKEN" https://${host}${page} -w '%{http_code}\\n'`
    const text = `${curl('GET', '/x')}; ${curl('POST', '/x')}; env`
    for (const [more, ...given] of [
      ['', '--secret', `TOKEN=${host},other.test`],
      [`; cat ${secretFile}`, '--secret-file', `TOKEN=${secretFile},${host}`],
    ]) {
      origin.seen.length = 0
      const rules = ['--request', `${host}: GET /**`, '--authority', authority]
      const words = ['exec', '--isolation', 'workspace', ...given, ...rules, `${text}${more}`]
      const variables = given[0] === '--secret' ? { TOKEN: VALUE } : undefined
      const { stdout, stderr } = await start(words, '', variables).ended
      expect(stdout).toContain('hello200\n')
      expect(stdout).toContain(`does not allow POST https://${host}/x. Allowed there: GET /**.\n403\n`)
      expect(stdout + stderr).not.toContain(VALUE)
      expect(origin.seen.map(({ authorization }) => authorization)).toEqual([`Bearer ${VALUE}`])
    }
  }))

it('says what is wrong before anything runs', () =>
  withCli(async ({ nacre }) => {
    const isolated = ['--isolation', 'workspace']
    const cases: [string[], string][] = [
      [['--secret', 'TOKEN=a.test'], 'need isolation, without which commands may connect to any host'],
      [['--allow', 'a.test:443'], 'add --isolation workspace'],
      [
        [...isolated, '--secret', 'NOT_SET_HERE=a.test'],
        '--secret NOT_SET_HERE: there is no variable of this name',
      ],
      [[...isolated, '--secret', 'a.test'], 'It must be NAME=HOST'],
      [
        [...isolated, '--secret-file', 'TOKEN=/none/x,a.test'],
        '--secret-file /none/x cannot be read: ENOENT',
      ],
      [[...isolated, '--secret-file', 'TOKEN=/none/x'], 'It must be NAME=FILE,HOST'],
      [[...isolated, '--request', 'GET /**'], 'It must be a host and a rule'],
      [[...isolated, '--request', 'a.test: get /**'], 'must be methods and a path'],
      [[...isolated, '--authority', '/none/x'], '--authority /none/x cannot be read: ENOENT'],
      [[...isolated, '--allow', 'a.test'], "write 'a.test:443'"],
    ]
    for (const [words, text] of cases) {
      const ended = await nacre('exec', ...words, 'echo ran')
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toContain(text)
    }
  }))
