import { existsSync, rmdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import { entries, ownGroups, runs, uniqueSleep, untilRuns } from '../helpers/proc.js'
import { made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

describe('startProcess', () => {
  itInEveryMode('starts with everything the session has', async ({ sandbox, directory }) => {
    await sandbox.exec('mkdir app; cd app; export SECRET=s; plain=p; list=(a b); greet() { echo "hi $1"; }')
    const process = await sandbox.startProcess('echo $PWD $SECRET $plain ${list[1]}; greet you')
    expect(await process.wait()).toEqual({ exitCode: 0, signal: null, reason: 'exit' })
    expect(await process.getLogs()).toEqual({ stdout: `${directory}/app s p b\nhi you\n`, stderr: '' })
  })

  // The shell's successor is a fork, which is renewed when it has been idle for 0.4 s.
  itInEveryMode('starts right after an exit with a large state', async ({ sandbox }) => {
    await sandbox.exec("large=$(head -c 3000000 /dev/zero | tr '\\0' x)")
    // Some of these exits come while the standby forks the next process ahead of time.
    for (let code = 1; code <= 20; code++) {
      await sandbox.exec(`last=${code}; exit ${code}`)
      const process = await sandbox.startProcess('echo ${#large} $last')
      expect(await process.wait({ timeout: 10_000 })).toMatchObject({ exitCode: 0 })
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
      await process.wait()
      expect((await process.getLogs()).stdout).toBe('1\n')
    }
    expect(runs(nap)).toBe(true)
    await stream.kill('SIGKILL')
    expect(await killed).toBe(true)
    expect((await stream.result).signal).toBe('SIGKILL')
  }

  it('resolves while the process runs, with its properties', () =>
    withSandbox(async ({ sandbox }) => {
      const before = Date.now()
      const process = await sandbox.startProcess(['sleep', '60'])
      expect(process.id).toMatch(/^proc-[0-9a-f]{10}$/)
      expect(process.pid).toBeGreaterThan(1)
      expect([process.command, process.sessionId]).toEqual(['sleep 60', 'default'])
      expect([process.state, (await process.refresh()).state]).toEqual(['running', 'running'])
      expect([process.exitCode, process.signal, process.reason, process.endedAt]).toEqual([
        null,
        null,
        null,
        null,
      ])
      expect(Math.abs(process.startedAt.getTime() - before)).toBeLessThan(5000)
      expect(JSON.parse(JSON.stringify(process))).toMatchObject({ id: process.id, state: 'running' })
    }))

  it('does not wait for a command that runs, and starts from the state before it', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('state=before')
      const running = sandbox.exec('state=while; while [ ! -e go ]; do sleep 0.01; done')
      const process = await sandbox.startProcess('echo $state; touch go')
      await process.wait()
      expect((await process.getLogs()).stdout).toBe('before\n')
      await running
    }))

  it('has a directory and variables of its own, and leaves the session as it is', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('export A=a B=b')
      const process = await sandbox.startProcess('echo $PWD $A ${B-unset}; cd /; A=z', {
        cwd: '/usr',
        env: { A: 'new', B: undefined },
      })
      await process.wait()
      expect((await process.getLogs()).stdout).toBe('/usr new unset\n')
      expect((await sandbox.exec('echo $A $B')).stdout).toBe('a b\n')
    }))

  it('runs in the session that is named, or that it is called on', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession({ id: 'other', env: { SIDE: 'other' } })
      const processes = [
        await session.startProcess('echo $SIDE'),
        await sandbox.startProcess('echo $SIDE', { sessionId: 'other' }),
      ]
      for (const process of processes) {
        await process.wait()
        expect([process.sessionId, (await process.getLogs()).stdout]).toEqual(['other', 'other\n'])
      }
      expect(await rejectionOf(sandbox.startProcess('true', { sessionId: 'none' }))).toMatchObject({
        code: 'SESSION_NOT_FOUND',
      })
    }))

  it('refuses an id that is in use', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60', { processId: 'one' })
      const again = () => rejectionOf(sandbox.startProcess('sleep 60', { processId: 'one' }))
      expect(await again()).toMatchObject({ code: 'PROCESS_ALREADY_EXISTS', name: 'SandboxError' })
      await process.kill()
      expect(await again()).toMatchObject({ code: 'PROCESS_ALREADY_EXISTS' })
      expect(await sandbox.forgetEndedProcesses()).toBe(1)
      const second = await sandbox.startProcess('sleep 60', { processId: 'one' })
      expect([process.state, second.state]).toEqual(['killed', 'running'])
    }))

  it('refuses a directory that is not there, and nothing runs', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const start = sandbox.startProcess('touch marker', { cwd: 'missing' })
      expect(await rejectionOf(start)).toMatchObject({ code: 'CWD_NOT_FOUND' })
      expect(existsSync(path.join(directory, 'marker'))).toBe(false)
      expect(await sandbox.listProcesses()).toEqual([])
    }))

  it('has the exit code of a shell for programs that cannot be run', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(['no-such-program'])
      expect((await process.wait()).exitCode).toBe(127)
      expect((await process.getLogs()).stderr).toContain('no-such-program')
      expect(process.state).toBe('exited')
    }))
})

describe.each([...modes, ...plain])('a start that is refused leaves no descriptor, $name', (mode) => {
  const inputs = [{ pty: true }, { input: 'pipe' as const }]

  it.each(inputs)('because its directory is missing: %o', (options) =>
    withSandboxIn(mode, async ({ sandbox }) => {
      const start = sandbox.startProcess('sleep 60', { ...options, cwd: 'missing' })
      expect(await rejectionOf(start)).toMatchObject({ code: 'CWD_NOT_FOUND' })
    }),
  )

  it.each(inputs)('because its session is deleted: %o', (options) =>
    withSandboxIn(mode, async ({ sandbox }) => {
      for (let round = 0; round < 10; round++) {
        const session = await sandbox.createSession()
        const start = session.startProcess('sleep 60', options).catch(() => undefined)
        await sandbox.deleteSession(session.id)
        await start
      }
    }),
  )
})

describe('an AbortSignal', () => {
  it('that is aborted keeps the process from being started', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const reason = new Error('changed my mind')
      const errors: unknown[] = []
      const options = { signal: AbortSignal.abort(reason), onError: (error: unknown) => errors.push(error) }
      const rejection = await rejectionOf(sandbox.startProcess('touch marker', options))
      expect(rejection).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR', cause: reason })
      expect(errors).toEqual([rejection])
      expect(existsSync(path.join(directory, 'marker'))).toBe(false)
    }))

  it('that is aborted in the same tick kills the process and rejects with the reason', () =>
    withSandbox(async ({ sandbox }) => {
      const controller = new AbortController()
      const start = sandbox.startProcess('sleep 60', { signal: controller.signal })
      controller.abort()
      expect(await rejectionOf(start)).toMatchObject({ code: 'ABORT_ERR' })
      expect((await sandbox.listProcesses({ state: 'running' })).length).toBe(0)
    }))

  it('kills the process later, and does nothing after its end', () =>
    withSandbox(async ({ sandbox }) => {
      const controller = new AbortController()
      const options = { signal: controller.signal }
      const quick = await sandbox.startProcess('true', options)
      await quick.wait()
      const process = await sandbox.startProcess('sleep 60', options)
      controller.abort()
      expect(await process.wait()).toEqual({ exitCode: null, signal: 'SIGTERM', reason: 'killed' })
      expect([quick.state, process.state]).toEqual(['exited', 'killed'])
    }))
})

describe('a timeout', () => {
  it('ends the whole tree, and the session does not notice', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('setsid sleep 60 & sleep 60', { timeout: 100 })
      expect(await process.wait()).toMatchObject({ exitCode: null, reason: 'timeout' })
      expect(process.state).toBe('exited')
      expect((process.endedAt?.getTime() ?? 0) - process.startedAt.getTime()).toBeGreaterThanOrEqual(95)
    }))

  it('kills a process that ignores signals after the delay', () =>
    withSandbox(async ({ sandbox }) => {
      const run = async (timeout: number) => {
        const process = await sandbox.startProcess(
          "trap '' TERM INT; echo up; while :; do sleep 0.01; done",
          {
            timeout,
            forceKillAfterDelay: 50,
          },
        )
        return { ...(await process.wait()), ...(await process.getLogs()) }
      }
      const end = await inTime(100, run, ({ stdout }) => stdout === 'up\n')
      expect(end).toMatchObject({ exitCode: null, signal: 'SIGKILL', reason: 'timeout' })
    }))
})

describe('limits of this side', () => {
  it('a hundred processes can be started and killed concurrently', () =>
    withSandbox(async ({ sandbox }) => {
      const starts = Array.from({ length: 100 }, () => sandbox.startProcess('sleep 60'))
      const processes = await Promise.all(starts)
      expect(new Set(processes.map(({ id }) => id)).size).toBe(100)
      expect(await sandbox.killAllProcesses()).toBe(100)
      await until(
        () => processes.every(({ state: status }) => status === 'killed') || undefined,
        () => 'not all are killed',
      )
    }))

  it('makes a new control group when the one made ahead of time was removed', () =>
    withSandbox(async ({ sandbox }) => {
      await (await sandbox.startProcess('true')).wait()
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
      expect(await process.wait()).toMatchObject({ exitCode: 7 })
    }))
})
