import { describe, expect, it } from 'vitest'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import { isAlive, isWaiting, runs, uniqueSleep, untilRuns } from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { blockUntil, holds } from '../helpers/until.js'

describe('the end of a process', () => {
  itInEveryMode('is its own if it came before the kill', async ({ sandbox }) => {
    const supervisor = Number((await sandbox.exec('echo $PPID')).stdout)
    const ended = await sandbox.startProcess('read line; exit 3', { input: 'pipe' })
    process.kill(supervisor, 'SIGSTOP')
    void ended.write('line\n')
    await holds(() => !isAlive(ended.pid))
    const answer = ended.kill()
    process.kill(supervisor, 'SIGCONT')
    expect(await answer).toBe(false)
    expect(await ended.waitForExit()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect(ended.status).toBe('failed')
  })

  itInSandbox(
    'is no error of kill, if the process was forgotten before its end was reported',
    async ({ sandbox }) => {
      const process = await sandbox.startProcess('exit 3')
      blockUntil(() => !isAlive(process.pid))
      // On a busy machine, the engine may not know of the end yet.
      await holds(async () => (await sandbox.cleanupCompletedProcesses()) > 0)
      expect(await process.kill()).toBe(false)
      expect(process.status).toBe('failed')
    },
  )

  itInSandbox(
    'is known when destroy was it',
    async ({ sandbox }) => {
      const ended = await sandbox.startProcess('true')
      await ended.waitForExit()
      const process = await sandbox.startProcess('echo one; exec sleep 60')
      const waiting = process.waitForExit()
      const events = process.output()
      await events.next()
      const last = events.next()
      const overtaken = rejectionOf(ended.stats())
      await sandbox.destroy()
      expect(await overtaken).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      expect(await waiting).toMatchObject({ exitCode: null, reason: 'killed' })
      expect(await last).toMatchObject({ value: { type: 'exit', reason: 'killed' } })
      expect(process.status).toBe('killed')
      expect(await process.kill()).toBe(false)
      await process[Symbol.asyncDispose]()
      const late = [
        ...[process.getLogs(), process.output().next()],
        ...[sandbox.startProcess('true'), sandbox.listProcesses(), sandbox.getProcess('x')],
      ]
      for (const error of await rejectionsOf(late)) expect(error).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    },
    { destroys: true },
  )
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
      const end = { status: 'killed', exitCode: null, signal: 'SIGTERM', reason: 'killed' }
      expect(process.toJSON()).toMatchObject(end)
      expect(await process.kill()).toBe(false)
    },
  )

  itInEveryMode('ends a process by its signal even right after the start', async ({ sandbox }) => {
    for (let round = 0; round < 40; round++) {
      const process = await sandbox.startProcess('sleep 600')
      const running = round % 2 === 0 ? undefined : sandbox.exec(':')
      expect(await process.kill()).toBe(true)
      expect(await process.waitForExit()).toEqual({ exitCode: null, signal: 'SIGTERM', reason: 'killed' })
      await running
    }
  })

  itInSandbox('sends the signal it is given, or that of the process', async ({ sandbox }) => {
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
    expect(given.toJSON()).toMatchObject({ status: 'killed', exitCode: 7, reason: 'killed' })
  })

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
  for (const mode of [...modes, ...plain])
    it.each([undefined, true])(`runs the INT trap of a shell ${mode.name}, with pty: %s`, (pty) =>
      withSandboxIn(mode, async ({ sandbox }) => {
        for (const [state, command] of trapping) {
          const nap = uniqueSleep()
          await using session = await sandbox.createSession()
          const process = await session.startProcess(command(nap), { pty })
          await untilRuns(nap)
          // A SIGINT just when bash begins to wait makes it loop until SIGKILL: bash 5.2 has no handler to restore yet.
          await holds(() => isWaiting(process.pid))
          expect(await process.kill('SIGINT'), state).toBe(true)
          expect((await process.getLogs()).stdout, state).toMatch(/^(up\s+)?caught\s*$/)
          const end = { status: 'killed', exitCode: 7, signal: null, reason: 'killed' }
          expect(process.toJSON(), state).toMatchObject(end)
        }
      }),
    )

  itInSandbox('refuses unknown ids and bad arguments', async ({ sandbox }) => {
    const process = await sandbox.startProcess('sleep 60')
    expect(await rejectionOf(sandbox.killProcess('none'))).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(await rejectionOf(sandbox.killProcess('../x'))).toMatchObject({ code: 'INVALID_ID' })
    const calls = [
      ...[process.kill(0), process.kill('SIGFOO' as never), sandbox.killProcess(process.id, 65)],
      process.kill('SIGTERM', { timeout: 5 } as never),
    ]
    for (const error of await rejectionsOf(calls)) expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    expect(process.status).toBe('running')
  })
})

describe('killAllProcesses', () => {
  itInSandbox(
    'kills those that run and those that are being started, and counts them',
    async ({ sandbox }) => {
      const session = await sandbox.createSession()
      await (await sandbox.startProcess('true')).waitForExit()
      const running = [await sandbox.startProcess('sleep 60'), await session.startProcess('sleep 60')]
      const starting = sandbox.startProcess('sleep 60')
      expect(await sandbox.killAllProcesses()).toBe(3)
      for (const process of [...running, await starting]) expect(process.status).toBe('killed')
      expect(await sandbox.killAllProcesses()).toBe(0)
    },
  )

  itInSandbox('kills a service that is not ready yet, and counts it once', async ({ sandbox }) => {
    await sandbox.exec('true')
    for (const isListed of [false, true]) {
      let onStart = () => {}
      const started = new Promise<void>((resolve) => {
        onStart = resolve
      })
      const options = { healthCheck: { log: 'never', timeout: 0 }, onStart }
      const starting = rejectionOf(sandbox.startService('sleep 60', options))
      if (isListed) await started
      expect(await sandbox.killAllProcesses()).toBe(1)
      expect(await starting).toBeInstanceOf(Error)
      expect(await sandbox.listProcesses()).toEqual([])
    }
  })
})
