import { getEventListeners } from 'node:events'
import path from 'node:path'
import { Sandbox, type Service } from 'nacre'
import { describe, expect } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { runs, uniqueSleep } from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { freePort } from '../helpers/serving.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Waits until services have this state. */
function untilState(state: string, ...services: Service[]): Promise<boolean> {
  return until(
    () => services.every((service) => service.status === state) || undefined,
    () => services.map((service) => service.status).join(),
  )
}

/** Runs once, then says so by a file; fails until there are `times` of them. */
const failing = (times: number) =>
  `echo run >> runs; echo ready; [ $(wc -l < runs) -gt ${times} ] && exec sleep 60; sleep 0.05; echo broken >&2; exit 7`

/** Fails when it is ready, and waits for a minute before its next start. */
const FAILING = 'echo ready; sleep 0.05; exit 7'
const PAUSED = { healthCheck: { log: 'ready' }, restart: 'on-failure', restartDelay: 60_000 } as const

describe('startService', () => {
  itInSandbox('rejects when it is not ready in time, and nothing of it is left', async ({ sandbox }) => {
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
  })

  itInSandbox('rejects when it ends before, and does not start it again', async ({ sandbox }) => {
    const checks = [{ log: 'ready' }, { port: await freePort() }, { command: 'false', interval: 10 }]
    for (const healthCheck of checks) {
      const options = { healthCheck, restart: 'on-failure', restartDelay: 1 } as const
      const error = await rejectionOf(sandbox.startService('echo no config >&2; exit 3', options))
      expect(error).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'no config\n' })
      expect(error.message).toContain('ended with exit code 3 before')
    }
    expect(await sandbox.listProcesses()).toEqual([])
  })
})

describe('a service that fails', () => {
  itInSandbox(
    'is started again until it stays, with the same id, and its last failure is known',
    async ({ sandbox }) => {
      const starts: number[] = []
      const service = await sandbox.startService(failing(2), {
        processId: 'weak',
        healthCheck: { log: 'ready' },
        restart: 'on-failure',
        restartDelay: 10,
        onStart: ({ pid }) => starts.push(pid),
      })
      await until(
        () => (service.restarts === 2 && service.status === 'running') || undefined,
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
    },
  )

  itInSandbox(
    'is not started again without the policy, nor when it succeeds or is killed',
    async ({ sandbox }) => {
      const healthCheck = { log: 'ready' }
      const policy = { healthCheck, restart: 'on-failure', restartDelay: 1 } as const
      const never = await sandbox.startService(FAILING, { healthCheck })
      const succeeds = await sandbox.startService('echo ready; sleep 0.05', policy)
      const killed = await sandbox.startService('echo ready; sleep 60', policy)
      await Promise.all([never.waitForExit(), succeeds.waitForExit(), killed.kill()])
      await until(
        () => never.lastFailure ?? undefined,
        () => 'the failure is not known',
      )
      expect([never.status, succeeds.status, killed.status]).toEqual(['failed', 'completed', 'killed'])
      expect([never.restarts, succeeds.restarts, killed.restarts]).toEqual([0, 0, 0])
      expect(never.lastFailure).toMatchObject({ exitCode: 7, logTail: 'ready\n' })
      expect((await never.getHealth()).healthy).toBe(false)
    },
  )

  itInSandbox('can be killed while it waits for its next start', async ({ sandbox }) => {
    const service = await sandbox.startService(FAILING, PAUSED)
    await untilState('starting', service)
    expect(await service.kill()).toBe(false)
    expect([service.status, service.restarts]).toEqual(['failed', 0])
  })

  itInSandbox(
    'releases its signal when the sandbox is destroyed while it waits for its next start',
    async ({ directory }) => {
      const sandbox = new Sandbox({ cwd: directory, stateDir: path.join(directory, 'state') })
      const { signal } = new AbortController()
      const service = await sandbox.startService(FAILING, { ...PAUSED, signal })
      await untilState('starting', service)
      await sandbox.destroy()
      expect(getEventListeners(signal, 'abort')).toEqual([])
    },
  )

  itInSandbox(
    'is not restarted when its signal is aborted or its session is deleted',
    async ({ sandbox }) => {
      const session = await sandbox.createSession()
      const controller = new AbortController()
      // An abort ends the pause; a deleted session is noticed after it.
      const aborted = await sandbox.startService(FAILING, { ...PAUSED, signal: controller.signal })
      const orphaned = await session.startService(FAILING, { ...PAUSED, restartDelay: 1000 })
      await Promise.all([aborted.waitForExit(), orphaned.waitForExit()])
      controller.abort()
      await sandbox.deleteSession(session.id)
      await untilState('failed', aborted, orphaned)
      expect([aborted.restarts, orphaned.restarts]).toEqual([0, 0])
    },
  )
})

describe('restart', () => {
  itInSandbox(
    'ends the process and resolves when the next one is ready, also after a kill',
    async ({ sandbox }) => {
      const service = await sandbox.startService('echo ready; sleep 60', { healthCheck: { log: 'ready' } })
      const { id, pid } = service
      await Promise.all([service.restart(), service.restart()])
      expect(service.pid).not.toBe(pid)
      expect([service.id, service.status, service.restarts]).toEqual([id, 'running', 1])
      await service.kill()
      await service.restart()
      expect([service.status, service.restarts]).toEqual(['running', 2])
      expect(await sandbox.listProcesses()).toEqual([service])
      expect(await sandbox.killAllProcesses()).toBe(1)
    },
  )

  itInSandbox('rejects as the start does, and can be tried again', async ({ sandbox }) => {
    const service = await sandbox.startService('[ -e bad ] && exit 3; echo ready; sleep 60', {
      healthCheck: { log: 'ready' },
    })
    await sandbox.exec('touch bad')
    expect(await rejectionOf(service.restart())).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY' })
    expect([service.status, service.exitCode]).toEqual(['failed', 3])
    await sandbox.exec('rm bad')
    await service.restart()
    expect((await service.getHealth()).healthy).toBe(true)
  })
})
