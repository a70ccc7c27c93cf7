import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import { isAlive, runs, uniqueSleep, untilRuns } from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { blockUntil, until } from '../helpers/until.js'

describe('the end of a process', () => {
  const cases: Array<[string, object]> = [
    ['exit 0', { exitCode: 0, signal: null, reason: 'exit' }],
    ['exit 3', { exitCode: 3, signal: null, reason: 'exit' }],
    ['kill -SEGV $BASHPID', { exitCode: null, signal: 'SIGSEGV', reason: 'signal' }],
  ]
  for (const [command, exit] of cases) {
    it(`is known: ${command}`, () =>
      withSandbox(async ({ sandbox }) => {
        const process = await sandbox.startProcess(command)
        expect(await process.wait()).toEqual(exit)
        expect(process.toJSON()).toMatchObject({ state: 'exited', ...exit })
        expect(process.endedAt?.getTime()).toBeGreaterThanOrEqual(process.startedAt.getTime())
        expect(await process.wait()).toEqual(exit)
      }))
  }

  it('is still known when the process has been forgotten', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('exit 3')
      const other = await sandbox.startProcess('sleep 60')
      await process.wait()
      expect(await sandbox.forgetEndedProcesses()).toBe(1)
      expect(await sandbox.forgetEndedProcesses()).toBe(0)
      expect(await process.wait()).toMatchObject({ exitCode: 3 })
      expect([process.state, await process.kill()]).toEqual(['exited', false])
      expect(await sandbox.getProcess(process.id)).toBe(null)
      expect(await sandbox.listProcesses()).toEqual([other])
      const refused = [process.getLogs(), process.stats(), sandbox.killProcess(process.id)].map(rejectionOf)
      for (const error of await Promise.all(refused)) {
        expect(error).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
      }
    }))

  itInEveryMode('is its own if it came before the kill', async ({ sandbox }) => {
    const supervisor = Number((await sandbox.exec('echo $PPID')).stdout)
    const ended = await sandbox.startProcess('read line; exit 3', { input: 'pipe' })
    process.kill(supervisor, 'SIGSTOP')
    void ended.write('line\n')
    await until(
      () => !isAlive(ended.pid) || undefined,
      () => 'it lives',
    )
    const answer = ended.kill()
    process.kill(supervisor, 'SIGCONT')
    expect(await answer).toBe(false)
    expect(await ended.wait()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect(ended.state).toBe('exited')
  })

  it('is no error of kill, if the process was forgotten before its end was reported', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('exit 3')
      blockUntil(() => !isAlive(process.pid))
      // On a busy machine, the engine may not know of the end yet.
      await until(
        async () => (await sandbox.forgetEndedProcesses()) > 0 || undefined,
        () => 'it is not forgotten',
      )
      expect(await process.kill()).toBe(false)
      expect(process.state).toBe('exited')
    }))

  it('is reported as the end of the sandbox by calls that destroy overtakes', () =>
    withSandbox(
      async ({ sandbox }) => {
        const process = await sandbox.startProcess('true')
        await process.wait()
        const stats = rejectionOf(process.stats())
        await sandbox.destroy()
        expect(await stats).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      },
      { destroys: true },
    ))

  it('is known when destroy was it', () =>
    withSandbox(
      async ({ sandbox }) => {
        const process = await sandbox.startProcess('sleep 60')
        const waiting = process.wait()
        await sandbox.destroy()
        expect(await waiting).toMatchObject({ exitCode: null, reason: 'killed' })
        expect(process.state).toBe('killed')
        expect(await process.kill()).toBe(false)
        await process[Symbol.asyncDispose]()
        expect(await rejectionOf(process.getLogs())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        for (const error of await Promise.all(
          [sandbox.startProcess('true'), sandbox.listProcesses(), sandbox.getProcess('x')].map(rejectionOf),
        )) {
          expect(error).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        }
      },
      { destroys: true },
    ))
})

describe('wait', () => {
  it('is given up after its timeout, and the process runs on', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo said; sleep 60')
      await process.waitForLog('said')
      const error = await rejectionOf(process.wait({ timeout: 20 }))
      expect(error).toMatchObject({ code: 'PROCESS_READY_TIMEOUT', logTail: 'said\n' })
      expect(error.message).toContain('20 ms passed before it ended')
      expect(process.state).toBe('running')
    }))

  it('is given up by an abort, and the process runs on', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60')
      const controller = new AbortController()
      const waiting = rejectionOf(process.wait({ signal: controller.signal }))
      const reason = new Error('enough')
      controller.abort(reason)
      expect(await waiting).toMatchObject({
        code: 'ABORT_ERR',
        cause: reason,
        message: 'the wait was aborted',
      })
      const refused = rejectionOf(process.wait({ signal: AbortSignal.abort() }))
      expect(await refused).toMatchObject({ code: 'ABORT_ERR' })
      expect(process.state).toBe('running')
    }))
})

describe('kill', () => {
  itInEveryMode(
    'ends everything that belongs to the process and resolves when nothing is left',
    async ({ sandbox }) => {
      const sleeps = [uniqueSleep(), uniqueSleep(), uniqueSleep()]
      const command = `${sleeps[0]} & setsid ${sleeps[1]} & (setsid ${sleeps[2]} &) ; echo up; wait`
      const process = await sandbox.startProcess(command)
      await process.waitForLog('up')
      expect(await process.kill()).toBe(true)
      expect(sleeps.filter(runs)).toEqual([])
      expect(process.toJSON()).toMatchObject({
        state: 'killed',
        exitCode: null,
        signal: 'SIGTERM',
        reason: 'killed',
      })
      expect(await process.kill()).toBe(false)
    },
  )

  itInEveryMode('ends a process by its signal even right after the start', async ({ sandbox }) => {
    for (let round = 0; round < 40; round++) {
      const process = await sandbox.startProcess('sleep 600')
      const running = round % 2 === 0 ? undefined : sandbox.exec(':')
      expect(await process.kill()).toBe(true)
      expect(await process.wait()).toEqual({ exitCode: null, signal: 'SIGTERM', reason: 'killed' })
      await running
    }
  })

  it('sends the signal it is given, or that of the process', () =>
    withSandbox(async ({ sandbox }) => {
      const command =
        'for s in USR1 INT TERM; do trap "echo $s; exit 7" $s; done; echo up; while :; do sleep 0.01; done'
      const options = { killSignal: 'SIGINT' } as const
      const given = await sandbox.startProcess(command, options)
      const own = await sandbox.startProcess(command, options)
      const byId = await sandbox.startProcess(command, options)
      for (const process of [given, own, byId]) await process.waitForLog('up')
      expect(await given.kill('SIGUSR1')).toBe(true)
      expect(await own.kill()).toBe(true)
      expect(await sandbox.killProcess(byId.id)).toBe(true)
      // A fork that has not become the sleep yet has the shell's traps.
      expect((await given.getLogs()).stdout).toMatch(/^up\n(USR1\n)+$/)
      expect((await own.getLogs()).stdout).toMatch(/^up\n(INT\n)+$/)
      expect((await byId.getLogs()).stdout).toMatch(/^up\n(INT\n)+$/)
      expect(given.toJSON()).toMatchObject({ state: 'killed', exitCode: 7, reason: 'killed' })
    }))

  const trap = "trap 'echo caught; kill $! 2>/dev/null; exit 7' INT;"
  const trapping: Array<[string, (nap: string) => string]> = [
    ['between commands', (nap) => `${trap} sleep 0.01; ${nap} & echo up; while :; do sleep 0.1; done`],
    ['waiting for its last command', (nap) => `${trap} ${nap}`],
    ['waiting for a command that is not its last', (nap) => `${trap} ${nap}; echo no`],
    ['waiting for a pipeline', (nap) => `${trap} ${nap} | cat`],
    ['in wait', (nap) => `${trap} ${nap} & wait`],
    ['with a trap that a function sets', (nap) => `f() { eval "$1"; }; f "${trap}" && ${nap}`],
    ['of a bash that it has become', (nap) => `exec bash -c "${trap} ${nap}; echo no"`],
  ]
  for (const mode of [...modes, ...plain]) {
    for (const pty of [undefined, true]) {
      it.each(trapping)(
        `runs the INT trap of a shell ${pty ? 'with a terminal ' : ''}${mode.name}: %s`,
        (_, command) =>
          withSandboxIn(mode, async ({ sandbox }) => {
            const nap = uniqueSleep()
            const process = await sandbox.startProcess(command(nap), { pty })
            await untilRuns(nap)
            expect(await process.kill('SIGINT')).toBe(true)
            expect((await process.getLogs()).stdout).toMatch(/^(up\s+)?caught\s*$/)
            expect(process.toJSON()).toMatchObject({
              state: 'killed',
              exitCode: 7,
              signal: null,
              reason: 'killed',
            })
          }),
      )
    }
  }

  it('uses SIGKILL when the delay has passed', () =>
    withSandbox(async ({ sandbox }) => {
      const stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done"
      const process = await sandbox.startProcess(stubborn)
      await process.waitForLog('up')
      expect(await process.kill(undefined, { forceKillAfterDelay: 20 })).toBe(true)
      expect(process.toJSON()).toMatchObject({ signal: 'SIGKILL', reason: 'killed' })
      const byId = await sandbox.startProcess(stubborn, { forceKillAfterDelay: 20 })
      await byId.waitForLog('up')
      expect(await sandbox.killProcess(byId.id)).toBe(true)
    }))

  it('of many at a time answers all: true for those that ended it', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60')
      const answers = await Promise.all([
        process.kill(),
        process.kill('SIGINT'),
        sandbox.killProcess(process.id),
      ])
      expect(answers).toContain(true)
      expect(await sandbox.killProcess(process.id)).toBe(false)
    }))

  it('refuses unknown ids and bad arguments', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60')
      expect(await rejectionOf(sandbox.killProcess('none'))).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
      expect(await rejectionOf(sandbox.killProcess('../x'))).toMatchObject({ code: 'INVALID_ID' })
      for (const error of await Promise.all(
        [
          process.kill(0),
          process.kill('SIGFOO' as never),
          sandbox.killProcess(process.id, 65),
          process.kill('SIGTERM', { timeout: 5 } as never),
        ].map(rejectionOf),
      )) {
        expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      }
      expect(process.state).toBe('running')
    }))
})

describe('killAllProcesses', () => {
  it('kills those that run and those that are being started, and counts them', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession()
      await (await sandbox.startProcess('true')).wait()
      const running = [await sandbox.startProcess('sleep 60'), await session.startProcess('sleep 60')]
      const starting = sandbox.startProcess('sleep 60')
      expect(await sandbox.killAllProcesses()).toBe(3)
      for (const process of [...running, await starting]) expect(process.state).toBe('killed')
      expect(await sandbox.killAllProcesses()).toBe(0)
    }))

  it('kills a service that is being started, without waiting for its health check', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('true')
      const options = { healthCheck: { log: 'never', timeout: 0 } }
      const starting = rejectionOf(sandbox.startService('sleep 60', options))
      expect(await sandbox.killAllProcesses()).toBe(1)
      expect(await starting).toBeInstanceOf(Error)
      expect(await sandbox.listProcesses()).toEqual([])
    }))

  it('counts a service once that is listed and not ready yet', () =>
    withSandbox(async ({ sandbox }) => {
      let onStart = () => {}
      const started = new Promise<void>((resolve) => {
        onStart = resolve
      })
      const options = { healthCheck: { log: 'never', timeout: 0 }, onStart }
      const starting = rejectionOf(sandbox.startService('sleep 60', options))
      await started
      expect(await sandbox.killAllProcesses()).toBe(1)
      expect(await starting).toBeInstanceOf(Error)
    }))

  it('has nothing to do before anything was started', () =>
    withSandbox(async ({ sandbox }) => {
      expect(await sandbox.killAllProcesses()).toBe(0)
      expect(await sandbox.forgetEndedProcesses()).toBe(0)
      expect(await sandbox.listProcesses()).toEqual([])
      expect(await sandbox.getProcess('x')).toBe(null)
    }))
})

describe('await using', () => {
  it('kills the process at the end of the block', () =>
    withSandbox(async ({ sandbox }) => {
      const words = uniqueSleep()
      {
        await using process = await sandbox.startProcess(words)
        expect(process.state).toBe('running')
      }
      expect(runs(words)).toBe(false)
    }))
})
