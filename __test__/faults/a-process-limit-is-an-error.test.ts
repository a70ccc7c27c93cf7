/**
 * RLIMIT_NPROC reached, in a session and in the host.
 *
 * The limit does not bind root, so tests that run as root start the host as a user of its own. That takes
 * setpriv(1) and a checkout which that user can read; where one is missing the tests say so and are left out.
 */
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { asOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import * as proc from '../helpers/proc.js'

const isRoot = process.geteuid?.() === 0
const onBun = 'bun' in process.versions

/** Runs a program in a host that the limit binds; gives what it returns. */
async function resultOf(program: string, wrapper: string[] = []): Promise<Record<string, unknown>> {
  const source = `
    const sandbox = new Sandbox({ cwd: '/tmp' })
    const endOf = (run) => run.then(({ stdout, exitCode }) => ({ stdout, exitCode }), ({ code }) => ({ code }))
    const main = async () => { ${program} }
    main().then(async (result) => { await sandbox.destroy(); print('RESULT ' + JSON.stringify(result)) })
  `
  const host = startHost(source, [...asOrdinaryUser, ...wrapper])
  expect(await host.ended(), host.output()).toBe(0)
  await expectGone(host.tag)
  return JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')
}

/** Processes and threads of this user, which the limit counts. */
function usedUp(): number {
  if (isRoot) return 0
  const own = proc.listProcesses().filter(({ pid }) => proc.statusNumber('Uid', pid) === process.geteuid?.())
  // One that has ended since has none.
  return own.reduce((sum, { pid }) => sum + (proc.statusNumber('Threads', pid) || 0), 0)
}

const untested = obstacle === undefined ? '' : `, not tested: it does not bind root, and ${obstacle}`

describe.skipIf(obstacle !== undefined)(`the process limit${untested}`, () => {
  it('in a session: builtins run, programs fail or time out, nothing of the state is lost', async () => {
    const program = `
      await sandbox.exec('x=1; a=(p "q r"); f() { echo f; }; set -o pipefail')
      const lowered = await endOf(sandbox.exec('x=2; cd /usr; ulimit -S -u 1'))
      // While idle the session makes a snapshot, which is a fork.
      await new Promise((resolve) => setTimeout(resolve, 50))
      const look = 'echo $x "\${a[1]}"; f; pwd; ulimit -S -u'
      const idle = await endOf(sandbox.exec(look))
      // Without a timeout bash itself would give up after 15 s.
      const fork = await endOf(sandbox.exec('x=3; /bin/true', { timeout: 500, forceKillAfterDelay: 5000 }))
      const pipeline = await endOf(sandbox.exec('echo a | cat', { timeout: 500, forceKillAfterDelay: 5000 }))
      const exit = await endOf(sandbox.exec('exit 7'))
      const after = await endOf(sandbox.exec(look))
      const raised = await endOf(sandbox.exec('ulimit -S -u hard; echo $x | cat'))
      return { lowered, idle, fork, pipeline, exit, after, raised }
    `
    const result = await resultOf(program)
    expect(result).toMatchObject({
      lowered: { stdout: '', exitCode: 0 },
      idle: { stdout: '2 q r\nf\n/usr\n1\n', exitCode: 0 },
      fork: { code: 'COMMAND_TIMEOUT' },
      pipeline: { code: 'COMMAND_TIMEOUT' },
      exit: { stdout: '', exitCode: 7 },
      after: { stdout: '3 q r\nf\n/usr\n1\n', exitCode: 0 },
      raised: { stdout: '3\n', exitCode: 0 },
    })
  })

  // Bun itself aborts when it cannot start a thread, with nacre or without.
  it.skipIf(onBun)(
    'in the host: sessions are refused immediately, and can be created when there is room again',
    async () => {
      const program = `
      await sandbox.exec('x=kept')
      const own = async (index) => (await sandbox.createSession({ id: 's' + index })).exec('echo in; /bin/echo out', { timeout: 500 })
      const runs = await Promise.all(Array.from({ length: 20 }, (_, index) => endOf(own(index))))
      for (const { id } of await sandbox.listSessions()) if (id !== 'default') await sandbox.deleteSession(id)
      const old = await endOf(sandbox.exec('/bin/echo $x'))
      const fresh = await endOf((await sandbox.createSession()).exec('/bin/echo new'))
      return { runs, old, fresh }
    `
      const limit = ['bash', '-c', `ulimit -u ${usedUp() + 40}; exec "$0" "$@"`]
      const { runs, old, fresh } = await resultOf(program, limit)
      expect({ old, fresh }).toMatchObject({ old: { stdout: 'kept\n' }, fresh: { stdout: 'new\n' } })
      const ends = runs as Array<{ code?: string; stdout?: string }>
      const refused = ends.filter(({ code }) => code === 'SPAWN_FAILED')
      expect(refused.length).toBeGreaterThan(0)
      for (const { code, stdout } of ends)
        expect(['SPAWN_FAILED', 'COMMAND_TIMEOUT', 'in\nout\n']).toContain(code ?? stdout)
    },
  )
})
