/** Host commands where programs are confined, or run as another user, and what is left of them after a SIGKILL. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Isolation } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { withSandbox } from '../helpers/invariants.js'
import { isRest } from '../helpers/modes.js'
import { asOrdinaryUser, giveToOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import * as proc from '../helpers/proc.js'
import { temporary } from '../helpers/temporary.js'
import { holds } from '../helpers/until.js'

const program = (directory: string, isolation: Isolation | undefined) => `
  const copy = async ({ args, stdin, stdout, sessionId }) => {
    for await (const piece of stdin) await stdout.write(args[0] + ' ' + sessionId + ' ' + piece)
    return 7
  }
  const sandbox = new Sandbox({ cwd: ${JSON.stringify(directory)}, stateDir: ${JSON.stringify(path.join(directory, '../state'))}, isolation: ${JSON.stringify(isolation)}, commands: { copy } })
  void (async () => {
    const session = await sandbox.createSession({ id: 'own' })
    const { exitCode, stdout, stderr } = await session.exec('echo 1 | copy a; sh -c "echo 2 | copy b"; x=$(copy c <<< 3); echo "$x"; (exit 3) | copy d')
    const touched = await session.exec('cd "$(dirname "$(command -v copy)")" && touch new copy nacre-command; ls', { mergeOutput: true })
    const job = await session.startProcess('copy p <<< 4')
    await job.waitForExit()
    print(JSON.stringify({ exitCode, stdout, stderr, process: (await job.getLogs()).stdout, files: touched.all.split('\\n').slice(-3) }))
    await sandbox.destroy()
  })().catch((error) => print(String(error.stack)))`

const EXPECTED = {
  exitCode: 7,
  stdout: 'a own 1\nb own 2\nc own 3\n',
  stderr: '',
  process: 'p own 4\n',
  files: ['copy', 'nacre-command', ''],
}

const rules: Record<string, Isolation> = {
  'the preset workspace': 'workspace',
  'the preset read-only': 'read-only',
  'no network and own processes': { network: 'none', processes: 'own' },
  'a list of readable directories': { filesystem: { read: [process.execPath], write: ['.'] } },
  'a list of hosts': { network: { allow: ['example.com:443'] } },
}

describe('a host command in an isolated session', () => {
  const users = obstacle === undefined ? [[], asOrdinaryUser] : [[]]
  for (const wrapper of users.filter((words, index) => index === 0 || words.length > 0))
    for (const tier of ['', 'landlock'])
      for (const [name, isolation] of Object.entries(rules))
        it(`is called with ${name}${tier && ', Landlock alone'}${wrapper.length > 0 ? ', for an ordinary user' : ''}`, async () => {
          const place = temporary('nacre-commands-test-', '/var/tmp')
          const directory = path.join(place, 'work')
          mkdirSync(directory)
          for (const given of [place, directory]) giveToOrdinaryUser(given)
          const host = startHost(program(directory, isolation), wrapper, { NACRE_ISOLATION: tier })
          expect(await host.ended()).toBe(0)
          expect(host.output()).toMatch(/^{/)
          expect(JSON.parse(host.output())).toEqual(EXPECTED)
        })

  if (process.getuid?.() === 0)
    it('is called by another user', () =>
      withSandbox(
        async ({ sandbox }) => {
          expect((await sandbox.exec('id -u; hello')).stdout).toBe('65534\nhello /\n')
        },
        {
          options: {
            cwd: '/',
            user: { uid: 65534, gid: 65534 },
            commands: {
              hello: async ({ cwd, stdout }) => {
                await stdout.write(`hello ${cwd}\n`)
                return 0
              },
            },
          },
        },
      ))
})

describe('a kill -9', () => {
  const rounds = isRest ? 100 : 5

  it(`of the host, of the caller, or of both leaves nothing, ${rounds} times`, async () => {
    const place = temporary('nacre-commands-kill-')
    const state = path.join(place, 'state')
    for (let round = 0; round < rounds; round++) {
      const host = startHost(`
        const keep = ({ stdout, signal }) => new Promise((resolve) => {
          signal.addEventListener('abort', () => { print('aborted'); resolve(0) })
          print('called')
        })
        globalThis.sandbox = new Sandbox({ cwd: ${JSON.stringify(place)}, stateDir: ${JSON.stringify(state)}, commands: { keep } })
        sandbox.exec('keep; echo $?').then(({ stdout }) => { print('code ' + stdout); return sandbox.destroy() }).then(() => print('done'))`)
      await host.printed('called')
      const [caller] = proc.tagged(host.tag).filter(({ pid }) => proc.commandLine(pid).startsWith('keep'))
      // The mark of the session, by which its supervisor is found.
      const limits = readFileSync(`/proc/${caller?.pid}/limits`, 'utf8')
      const mark = BigInt(/^Max file locks +(\d+)/m.exec(limits)?.[1] ?? '').toString(16)
      if (round % 3 !== 1) host.child.kill('SIGKILL')
      if (round % 3 !== 0) proc.kill(caller?.pid ?? 0)
      if (round % 3 === 1) {
        await host.printed('code 137')
        expect(host.output()).toContain('aborted')
      }
      await host.ended()
      await expectGone(host.tag)
      await holds(() => readdirSync(state).every((name) => name.startsWith('program-')))
      expect(mark).toMatch(/^[0-9a-f]{8,16}$/)
      expect(execFileSync('cat', ['/proc/net/unix'], { encoding: 'utf8' })).not.toContain(mark)
    }
    expect(statSync(state).isDirectory()).toBe(true)
  }, 300_000)
})
