import { getEventListeners } from 'node:events'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { withSandbox } from '../helpers/invariants.js'
import { runs, uniqueSleep } from '../helpers/proc.js'
import { freePort, serverCommand } from '../helpers/serving.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Runs once, then says so by a file; fails until there are `times` of them. */
const failing = (times: number) =>
  `echo run >> runs; echo ready; [ $(wc -l < runs) -gt ${times} ] && exec sleep 60; sleep 0.05; echo broken >&2; exit 7`

describe('startService', () => {
  it('resolves when the port is served, and reports its health', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const port = await freePort()
      const status = `existsSync('${directory}/sick') ? 500 : 200`
      const service = await sandbox.startService(serverCommand({ port, status }), {
        healthCheck: { port, path: '/' },
        processId: 'web',
      })
      expect([service.id, service.state, service.restarts]).toEqual(['web', 'running', 0])
      expect(await sandbox.getProcess('web')).toBe(service)
      expect(await service.getHealth()).toEqual({
        healthy: true,
        state: 'running',
        restarts: 0,
        lastFailure: null,
      })
      await sandbox.exec('touch sick')
      expect(await service.getHealth()).toEqual({
        healthy: false,
        state: 'running',
        restarts: 0,
        lastFailure: null,
      })
      await sandbox.exec('rm sick')
      expect((await service.getHealth()).healthy).toBe(true)
      expect(await sandbox.killProcess('web')).toBe(true)
      expect(await service.getHealth()).toEqual({
        healthy: false,
        state: 'killed',
        restarts: 0,
        lastFailure: null,
      })
    }))

  it('resolves when the log has the line, or the command succeeds', () =>
    withSandbox(async ({ sandbox }) => {
      const byLog = await sandbox.startService('sleep 0.05; echo is ready; sleep 60', {
        healthCheck: { log: /ready$/ },
      })
      expect((await byLog.getHealth()).healthy).toBe(true)
      const byCommand = await sandbox.startService('sleep 0.1; touch "$NAME"; sleep 60', {
        cwd: '.',
        env: { NAME: 'up' },
        healthCheck: { command: 'test -e "$NAME"', interval: 10 },
      })
      expect((await byCommand.getHealth()).healthy).toBe(true)
      expect((await sandbox.listProcesses()).map(({ id }) => id)).toEqual([byLog.id, byCommand.id])
      await sandbox.exec('rm up')
      expect((await byCommand.getHealth()).healthy).toBe(false)
    }))

  it('does not wait for a command that runs, for its check either', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('true')
      const running = sandbox.exec('while [ ! -e go ]; do sleep 0.01; done')
      await sandbox.startService('touch up; sleep 60', {
        healthCheck: { command: 'test -e up', interval: 10 },
      })
      await sandbox.startProcess('touch go')
      await running
    }))

  it('rejects when it is not ready in time, and nothing of it is left', () =>
    withSandbox(async ({ sandbox }) => {
      const words = uniqueSleep()
      for (const healthCheck of [
        { log: 'ready' },
        { port: await freePort() },
        { command: 'false', interval: 10 },
        { command: 'sleep 60' },
      ]) {
        const start = (timeout: number) => {
          const options = { healthCheck: { ...healthCheck, timeout }, processId: 'late' }
          return rejectionOf(sandbox.startService(`echo starting; ${words}`, options))
        }
        const hasPrinted = (error: Error) => (error as { logTail?: string }).logTail !== ''
        expect(await inTime(100, start, hasPrinted)).toMatchObject({
          code: 'PROCESS_READY_TIMEOUT',
          logTail: 'starting\n',
        })
        expect(runs(words)).toBe(false)
        expect(await sandbox.getProcess('late')).toBe(null)
      }
    }))

  it('rejects when it ends before, and does not start it again', () =>
    withSandbox(async ({ sandbox }) => {
      const checks = [{ log: 'ready' }, { port: await freePort() }, { command: 'false', interval: 10 }]
      for (const healthCheck of checks) {
        const options = { healthCheck, restart: 'on-failure', restartDelay: 1 } as const
        const error = await rejectionOf(sandbox.startService('echo no config >&2; exit 3', options))
        expect(error).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'no config\n' })
        expect(error.message).toContain('ended with exit code 3 before')
      }
      expect(await sandbox.listProcesses()).toEqual([])
    }))

  it('rejects with an AbortError when it is aborted, and nothing of it is left', () =>
    withSandbox(async ({ sandbox }) => {
      const words = uniqueSleep()
      const controller = new AbortController()
      const start = rejectionOf(
        sandbox.startService(words, { healthCheck: { log: 'ready' }, signal: controller.signal }),
      )
      await until(
        () => runs(words) || undefined,
        () => 'it was not started',
      )
      controller.abort('enough')
      expect(await start).toMatchObject({ code: 'ABORT_ERR', cause: 'enough' })
      expect(runs(words)).toBe(false)
    }))

  it('calls onError, and rejects bad options before anything runs', () =>
    withSandbox(async ({ sandbox }) => {
      const errors: unknown[] = []
      const onError = (error: unknown) => errors.push(error)
      const error = await rejectionOf(sandbox.startService('exit 1', { healthCheck: { log: 'x' }, onError }))
      expect(errors).toEqual([error])
      const bad = sandbox.startService('true', { onError } as never)
      expect(await rejectionOf(bad)).toMatchObject({ code: 'INVALID_OPTION' })
      expect(errors).toEqual([error])
    }))
})

describe('a service that fails', () => {
  it('is started again until it stays, with the same id, and its last failure is known', () =>
    withSandbox(async ({ sandbox }) => {
      const starts: number[] = []
      const service = await sandbox.startService(failing(2), {
        processId: 'weak',
        healthCheck: { log: 'ready' },
        restart: 'on-failure',
        restartDelay: 10,
        onStart: ({ pid }) => starts.push(pid),
      })
      await until(
        () => (service.restarts === 2 && service.state === 'running') || undefined,
        () => `restarts: ${service.restarts}`,
      )
      expect([service.id, service.pid, new Set(starts).size]).toEqual(['weak', starts[2], 3])
      expect(await sandbox.getProcess('weak')).toBe(service)
      expect(await service.getHealth()).toMatchObject({
        healthy: true,
        restarts: 2,
        lastFailure: { exitCode: 7, signal: null, reason: 'exit', logTail: 'ready\nbroken\n' },
      })
      expect((await service.getLogs()).stdout).toBe('ready\n')
    }))

  it('is not started again without the policy, nor when it succeeds or is killed', () =>
    withSandbox(async ({ sandbox }) => {
      const healthCheck = { log: 'ready' }
      const policy = { healthCheck, restart: 'on-failure', restartDelay: 1 } as const
      const never = await sandbox.startService('echo ready; sleep 0.05; exit 7', { healthCheck })
      const succeeds = await sandbox.startService('echo ready; sleep 0.05', policy)
      const killed = await sandbox.startService('echo ready; sleep 60', policy)
      await Promise.all([never.wait(), succeeds.wait(), killed.kill()])
      await until(
        () => never.lastFailure ?? undefined,
        () => 'the failure is not known',
      )
      expect([never.state, succeeds.state, killed.state]).toEqual(['exited', 'exited', 'killed'])
      expect([never.restarts, succeeds.restarts, killed.restarts]).toEqual([0, 0, 0])
      expect(never.lastFailure).toMatchObject({ exitCode: 7, logTail: 'ready\n' })
      expect((await never.getHealth()).healthy).toBe(false)
    }))

  it('can be killed while it waits for its next start', () =>
    withSandbox(async ({ sandbox }) => {
      const service = await sandbox.startService('echo ready; sleep 0.05; exit 7', {
        healthCheck: { log: 'ready' },
        restart: 'on-failure',
        restartDelay: 60_000,
      })
      await until(
        () => service.state === 'starting' || undefined,
        () => service.state,
      )
      expect(await service.kill()).toBe(false)
      expect([service.state, service.restarts]).toEqual(['exited', 0])
    }))

  it('releases its signal when the sandbox is destroyed while it waits for its next start', () =>
    withSandbox(async ({ directory }) => {
      const sandbox = new Sandbox({ cwd: directory, stateDir: path.join(directory, 'state') })
      const { signal } = new AbortController()
      const service = await sandbox.startService('echo ready; exit 7', {
        healthCheck: { log: 'ready' },
        restart: 'on-failure',
        restartDelay: 60_000,
        signal,
      })
      await until(
        () => service.state === 'starting' || undefined,
        () => service.state,
      )
      await sandbox.destroy()
      expect(getEventListeners(signal, 'abort')).toEqual([])
    }))

  it('is not restarted when its signal is aborted or its session is deleted', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession()
      const controller = new AbortController()
      const options = { healthCheck: { log: 'ready' }, restart: 'on-failure' } as const
      const command = 'echo ready; sleep 0.05; exit 7'
      // An abort ends the pause; a deleted session is noticed after it.
      const aborted = await sandbox.startService(command, {
        ...options,
        signal: controller.signal,
        restartDelay: 60_000,
      })
      const orphaned = await sandbox.startService(command, {
        ...options,
        sessionId: session.id,
        restartDelay: 1000,
      })
      await Promise.all([aborted.wait(), orphaned.wait()])
      controller.abort()
      await sandbox.deleteSession(session.id)
      await until(
        () => (aborted.state === 'exited' && orphaned.state === 'exited') || undefined,
        () => `${aborted.state} ${orphaned.state}`,
      )
      expect([aborted.restarts, orphaned.restarts]).toEqual([0, 0])
    }))
})

describe('restart', () => {
  it('ends the process and resolves when the next one is ready, also after a kill', () =>
    withSandbox(async ({ sandbox }) => {
      const service = await sandbox.startService('echo ready; sleep 60', { healthCheck: { log: 'ready' } })
      const { id, pid } = service
      await Promise.all([service.restart(), service.restart()])
      expect(service.pid).not.toBe(pid)
      expect([service.id, service.state, service.restarts]).toEqual([id, 'running', 1])
      await service.kill()
      await service.restart()
      expect([service.state, service.restarts]).toEqual(['running', 2])
      expect(await sandbox.listProcesses()).toEqual([service])
      expect(await sandbox.killAllProcesses()).toBe(1)
    }))

  it('rejects as the start does, and can be tried again', () =>
    withSandbox(async ({ sandbox }) => {
      const service = await sandbox.startService('[ -e bad ] && exit 3; echo ready; sleep 60', {
        healthCheck: { log: 'ready' },
      })
      await sandbox.exec('touch bad')
      expect(await rejectionOf(service.restart())).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY' })
      expect([service.state, service.exitCode]).toEqual(['exited', 3])
      await sandbox.exec('rm bad')
      await service.restart()
      expect((await service.getHealth()).healthy).toBe(true)
    }))
})
