import type { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { tagged } from './helpers/proc.js'
import { rejectionOf } from './helpers/thrown.js'

describe('right after a deletion of the default session that is not awaited', () => {
  const afterwards: Record<string, (sandbox: Sandbox) => Promise<unknown>> = {
    exec: async (sandbox) => (await sandbox.exec('echo ${x-unset}')).stdout,
    execStream: async (sandbox) => (await sandbox.execStream('echo ${x-unset}').result).stdout,
    startProcess: async (sandbox) => {
      const process = await sandbox.startProcess('echo ${x-unset}')
      await process.waitForExit()
      return (await process.getLogs()).stdout
    },
    setEnvVars: async (sandbox) => {
      await sandbox.setEnvVars({ Y: '1' })
      return (await sandbox.exec('echo ${x-unset}')).stdout
    },
  }
  it('every call runs in a new one', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.deleteSession('default')
      for (const [name, call] of Object.entries(afterwards)) {
        await sandbox.exec("x=1; trap '' TERM; sleep 61 &")
        const deleted = sandbox.deleteSession('default')
        expect([name, await call(sandbox)]).toEqual([name, 'unset\n'])
        await deleted
      }
    }))

  it('the new one can be deleted as well, and destroy waits for both', () =>
    withSandbox(
      async ({ sandbox, tag }) => {
        const deletions: Promise<void>[] = []
        for (let round = 0; round < 3; round++) {
          await sandbox.exec("trap '' TERM; sleep 61 &")
          deletions.push(sandbox.deleteSession('default'))
        }
        await sandbox.exec('true')
        await sandbox.destroy()
        expect(tagged(tag)).toEqual([])
        await Promise.all(deletions)
      },
      { destroys: true },
    ))
})

/** The table of docs/sessions.md: what ends a command but not the session. */
const ENDS = {
  exit: 'exit 3',
  'set -e': 'set -e; false',
  'set -u': 'set -u; echo $missing',
  'a missing parameter': 'echo ${missing:?}',
  'exit with an EXIT trap, in a function below eval': 'trap : EXIT; f() { exit 3; }; eval f',
  'a failing exec': 'exec /proc/nowhere',
  'an expansion error under set -e': 'set -e; echo ${x!}',
  ...Object.fromEntries(
    ['TERM', 'HUP', 'INT', 'USR1', 'USR2', 'ALRM', 'VTALRM', 'XCPU'].map((name) => [
      name,
      `kill -${name} $$`,
    ]),
  ),
  KILL: 'kill -9 $$',
  'a successful exec': 'exec true',
  'a crash': 'kill -SEGV $$',
}

describe('a command', () => {
  it.each(Object.entries(ENDS))('ends its session without surviveExit, and not otherwise: %s', (_, command) =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('kept=1')
      await sandbox.exec(command)
      expect((await sandbox.exec('echo $kept')).stdout).toBe('1\n')
      const session = await sandbox.createSession({ surviveExit: false })
      for (const call of [command, 'echo on'])
        expect(await rejectionOf(session.exec(call))).toMatchObject({ code: 'SESSION_TERMINATED' })
    }),
  )

  it('that exits leaves variables, functions, traps, descriptors, jobs, $! and $$ as they are', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('v=1; f() { echo f; }; trap "echo usr1" USR1; exec 7<<<kept; sleep 61 & p=$!; s=$$')
      expect((await sandbox.exec('exit 3')).exitCode).toBe(3)
      const { stdout } = await sandbox.exec(
        'echo $v; f; kill -USR1 $$; cat <&7; jobs -p; [[ $! == $p && $$ == $s ]] && echo same; kill $p; echo $p',
      )
      expect(stdout).toMatch(/^1\nf\nusr1\nkept\n(\d+)\nsame\n\1\n$/)
    }))

  it.each(['if; then', 'echo "'])('with a syntax error ends no session: %s', (command) =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession({ surviveExit: false })
      await session.exec('kept=1')
      expect((await session.exec(command)).exitCode).toBe(2)
      expect((await session.exec('echo $kept')).stdout).toBe('1\n')
    }),
  )
})
