import { rmdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Workplace } from '../helpers/invariants.js'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import { entries, ownGroups, runs, uniqueSleep, untilRuns } from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

describe('startProcess', () => {
  // The shell's successor is a fork, which is renewed when it has been idle for 0.4 s.
  itInEveryMode('starts right after an exit with a large state', async ({ sandbox }) => {
    await sandbox.exec("large=$(head -c 3000000 /dev/zero | tr '\\0' x)")
    // Some of these exits come while the standby forks the next process ahead of time.
    for (let code = 1; code <= 20; code++) {
      await sandbox.exec(`last=${code}; exit ${code}`)
      const process = await sandbox.startProcess('echo ${#large} $last')
      expect(await process.waitForExit({ timeout: 10_000 })).toMatchObject({ exitCode: 0 })
      expect((await process.getLogs()).stdout).toBe(`3000000 ${code}\n`)
    }
  })

  it.each([...modes, ...plain])('starts in the grace time of a killed command, $name', (mode) =>
    withSandboxIn(mode, startInGraceTime),
  )

  const startInGraceTime = async ({ sandbox, directory }: Workplace) => {
    const nap = uniqueSleep()
    await sandbox.exec('x=1')
    const witness = `trap ': >signalled; exit' TERM; : >ready; while :; do sleep 0.01; done`
    const stubborn = `(trap '' TERM; ${nap}) & (${witness}) & wait`
    const stream = sandbox.execStream(`x=2; ${stubborn}`, { forceKillAfterDelay: 600_000 })
    await untilRuns(nap)
    await made(directory, 'ready')
    const killed = stream.kill()
    await made(directory, 'signalled')
    // The shell leaves the command at one of these moments.
    for (let count = 0; count < 20; count++) {
      const process = await sandbox.startProcess('echo $x')
      await process.waitForExit()
      expect((await process.getLogs()).stdout).toBe('1\n')
    }
    expect(runs(nap)).toBe(true)
    await stream.kill('SIGKILL')
    expect(await killed).toBe(true)
    expect((await stream.result).signal).toBe('SIGKILL')
  }

  itInSandbox('waits for no command that runs, and starts from the state before it', async ({ sandbox }) => {
    await sandbox.exec('state=before')
    const running = sandbox.exec('state=while; while [ ! -e go ]; do sleep 0.01; done; echo $state')
    for (const pty of [undefined, true]) {
      const process = await sandbox.startProcess('echo $state', { pty })
      await process.waitForExit()
      expect((await process.getLogs()).stdout.trim()).toBe('before')
    }
    // Nor does the check of a service.
    await sandbox.startService('touch up; sleep 60', { healthCheck: { command: 'test -e up', interval: 10 } })
    await sandbox.startProcess('touch go')
    expect((await running).stdout).toBe('while\n')
  })
})

describe.each([...modes, ...plain])('a start that is refused leaves no descriptor, $name', (mode) => {
  const inputs = [{ pty: true }, { input: 'pipe' as const }]

  it('because its directory is missing', () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      for (const options of inputs) {
        const start = sandbox.startProcess('sleep 60', { ...options, cwd: 'missing' })
        expect(await rejectionOf(start)).toMatchObject({ code: 'CWD_NOT_FOUND' })
      }
    }))

  it('because its session is deleted', () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      for (let round = 0; round < 20; round++) {
        const session = await sandbox.createSession()
        const start = session.startProcess('sleep 60', inputs[round % 2]).catch(() => undefined)
        await sandbox.deleteSession(session.id)
        await start
      }
    }))
})

describe('limits of this side', () => {
  itInSandbox('a hundred processes can be started and killed concurrently', async ({ sandbox }) => {
    const starts = Array.from({ length: 100 }, () => sandbox.startProcess('sleep 60'))
    const processes = await Promise.all(starts)
    expect(new Set(processes.map(({ id }) => id)).size).toBe(100)
    expect(await sandbox.killAllProcesses()).toBe(100)
    await holds(() => processes.every(({ status }) => status === 'killed'))
  })

  itInSandbox(
    'makes a new control group when the one made ahead of time was removed',
    async ({ sandbox }) => {
      await (await sandbox.startProcess('true')).waitForExit()
      const isSpare = (group: string) => entries(group).some((name) => name.startsWith('b-'))
      if (ownGroups().length === 0) return
      const group = await until(
        () => ownGroups().find(isSpare),
        () => 'no group is made ahead of time',
      )
      for (const name of entries(group).filter((name) => name.startsWith('b-'))) {
        try {
          rmdirSync(path.join(group, name))
        } catch (error) {
          // The group of the process that has ended is being removed.
          expect(error).toMatchObject({ code: 'ENOENT' })
        }
      }
      const process = await sandbox.startProcess('exit 7')
      expect(await process.waitForExit()).toMatchObject({ exitCode: 7 })
    },
  )
})
