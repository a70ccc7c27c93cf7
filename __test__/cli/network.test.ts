/** The options for the network of isolated commands. */
import { execFileSync } from 'node:child_process'
import { linkSync, truncateSync, writeFileSync } from 'node:fs'
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

it('takes rules from a file, to which options add, and says why something is refused', () =>
  withCli(async ({ nacre, root }) => {
    const file = path.join(path.dirname(root), 'rules.json')
    writeFileSync(file, JSON.stringify({ preset: 'workspace', network: { allow: ['a.test:443'] } }))
    const rules = ['--isolation-file', file]
    expect(await nacre('exec', ...rules, 'touch /opt/nacre-x 2> /dev/null || echo refused')).toMatchObject({
      ...{ code: 0, stdout: 'refused\n' },
    })
    const why = (...words: string[]) => nacre('why', ...rules, ...words)
    expect(await why('a.test:443')).toEqual({
      code: 0,
      stdout: 'a.test:443: no rule refuses it\n',
      stderr: '',
    })
    expect(await why('b.test:443')).toMatchObject({
      code: 1,
      stdout:
        "b.test:443: network is refused by isolation.network.allow; to allow it: add 'b.test:443' to isolation.network.allow\n",
    })
    expect((await why('--allow', 'b.test:443', 'b.test:443')).code).toBe(0)
    expect((await why('--allow', 'b.test:443', 'a.test:443')).code).toBe(0)
    expect(JSON.parse((await why('--json', '/etc/hosts')).stdout)).toMatchObject([{ kind: 'write' }])
    const own = path.join(path.dirname(root), 'programs.json')
    const programs = { perl: { allow: ['own.test:443'], files: ['/usr/bin/env'] } }
    writeFileSync(own, JSON.stringify({ preset: 'workspace', network: { allow: [], programs } }))
    const whyOf = (...words: string[]) => nacre('why', '--isolation-file', own, ...words)
    expect(await whyOf('own.test:443')).toMatchObject({
      code: 1,
      stdout:
        "own.test:443: network is refused by isolation.network.programs; to allow it: add 'own.test:443' to isolation.network.allow\n",
    })
    expect((await whyOf('--program', 'perl', 'own.test:443')).code).toBe(0)
    expect((await whyOf('--program', 'curl', 'own.test:443')).code).toBe(1)
    expect((await whyOf('--program', 'a/b', 'own.test:443')).stderr).toContain('program must be the name or')
    for (const more of [['--container'], ['--url', 'http://127.0.0.1:1']])
      expect((await nacre('exec', ...rules, ...more, 'true')).stderr).toContain('--isolation-file')
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
      [[...isolated, '--secret-file', 'TOKEN=/none/x,a.test'], '--secret-file TOKEN cannot be read: ENOENT'],
      [[...isolated, '--request', 'GET /**'], 'It must be a host and a rule'],
      [
        [...isolated, '--request', 'a.test: get /**'],
        "--request['a.test:443'][0] must have * or methods in capitals",
      ],
      [
        [...isolated, '--request', 'a.test: GET /a/../b'],
        "--request['a.test:443'][0] matches no request: write",
      ],
      [[...isolated, '--request', 'a.test: ask POST /**'], "--request: the rule 'ask POST /**' needs --ask"],
      [[...isolated, '--authority', '/none/x'], '--authority /none/x cannot be read: ENOENT'],
      [[...isolated, '--authority', '/dev/zero'], '--authority /dev/zero must be a file, not a directory'],
      [[...isolated, '--authority', '/etc/hostname'], '--authority[0] must be certificates as PEM'],
      [[...isolated, '--allow', 'a.test'], '--allow[0] must be a host and a port like'],
    ]
    for (const [words, text] of cases) {
      const ended = await nacre('exec', ...words, 'echo ran')
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toContain(text)
    }
  }))

it('shows no value that is given in the wrong place', () =>
  withCli(async ({ nacre, root }) => {
    const file = path.join(path.dirname(root), 'value')
    writeFileSync(file, VALUE)
    for (const [flag, text, message] of [
      ['--secret', VALUE, '--secret must be NAME=HOST'],
      ['--secret', `${VALUE}=a.test`, '--secret: there is no variable of this name'],
      ['--secret-file', `TOKEN=${VALUE}`, '--secret-file must be NAME=FILE,HOST'],
      ['--secret-file', `TOKEN=${VALUE},a.test`, '--secret-file TOKEN cannot be read: ENOENT'],
      ['--secret-file', `TOKEN=${file},${VALUE}`, '--secret TOKEN.hosts[0] must be the name of one host'],
    ]) {
      const words = [String(flag), String(text)]
      const ended = await nacre('exec', '--isolation', 'workspace', ...words, 'echo ran')
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toContain(message)
      expect(ended.stderr).not.toContain(VALUE)
    }
  }))

it('reads files of a few bytes alone, which commands can reach by no other name', () =>
  withCli(async ({ nacre, root }) => {
    const at = (name: string) => path.join(path.dirname(root), name)
    writeFileSync(at('large'), '')
    truncateSync(at('large'), 1024 ** 3)
    execFileSync('mkfifo', [at('pipe')])
    writeFileSync(at('value'), VALUE)
    linkSync(at('value'), at('other'))
    const kind = 'must be a file, not a directory, a pipe or a device: write the content to a file'
    for (const [file, message] of [
      [at('pipe'), `--secret-file TOKEN ${kind}`],
      ['/dev/zero', `--secret-file TOKEN ${kind}`],
      [path.dirname(root), `--secret-file TOKEN ${kind}`],
      [at('large'), '--secret-file TOKEN must have at most 1048576 bytes'],
      [at('other'), `--secret-file ${at('other')} has hard links, by which commands could read it`],
    ]) {
      const words = ['--isolation', 'workspace', '--secret-file', `TOKEN=${file},a.test`]
      const ended = await nacre('exec', ...words, 'echo ran')
      expect(ended).toMatchObject({ code: 2, stdout: '' })
      expect(ended.stderr).toContain(message)
    }
    const { code, stderr } = await nacre('serve', '--token-file', '/dev/zero', '--port', '0')
    expect({ code, stderr }).toEqual({ code: 2, stderr: `nacre: --token-file /dev/zero ${kind}\n` })
  }))
