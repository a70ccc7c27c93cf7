/** The end of a client is the end of what it has begun, and of nothing else. */
import { setTimeout as sleep } from 'node:timers/promises'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withServer } from '../helpers/http.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

describe('destroy', () => {
  it('ends what this client has begun, and leaves the rest alone', () =>
    withServer(async ({ url, sandbox }) => {
      const [mine, other] = [new SandboxClient({ url }), new SandboxClient({ url })]
      await other.startProcess('sleep 60', { processId: 'theirs' })
      await other.createSession({ id: 'theirs' })
      await mine.startProcess('sleep 60', { processId: 'mine' })
      const session = await mine.createSession({ id: 'mine' })
      // An id that was ours and is another client's by now.
      await (await mine.startProcess('true', { processId: 'passed-on' })).waitForExit()
      await mine.cleanupCompletedProcesses()
      await other.startProcess('sleep 60', { processId: 'passed-on' })
      const healthCheck = { log: 'ready' }
      const service = await mine.startService('echo ready', { processId: 'service', healthCheck })
      await service.waitForExit()
      await mine.cleanupCompletedProcesses()
      await other.startProcess('sleep 60', { processId: 'service' })
      const pending = rejectionOf(mine.exec('sleep 60'))
      const queued = rejectionOf(session.exec('sleep 60'))
      await Promise.all([mine.destroy(), mine.destroy()])
      expect(await pending).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      expect(await queued).toBeInstanceOf(Error)
      expect(await rejectionOf(mine.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      const running = await sandbox.listProcesses({ status: 'running' })
      expect(running.map(({ id }) => id)).toEqual(['theirs', 'passed-on', 'service'])
      expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default', 'theirs'])
      expect((await sandbox.exec('echo free', { timeout: 10_000 })).stdout).toBe('free\n')
      await other.destroy()
      expect(await sandbox.listProcesses({ status: 'running' })).toEqual([])
    }))

  it('leaves nothing of what is being started', () =>
    withServer(async ({ url, sandbox }) => {
      for (const delay of [0, 1, 3, 6]) {
        const client = new SandboxClient({ url })
        const starts = [
          client.startProcess('sleep 60'),
          client.createSession(),
          client.startService('sleep 60', { healthCheck: { log: 'never' } }),
        ].map((start: Promise<unknown>) => start.catch(() => {}))
        await sleep(delay)
        await client.destroy()
        await Promise.all(starts)
        await until(
          async () =>
            (await sandbox.listProcesses({ status: ['starting', 'running'] })).length === 0 || undefined,
          () => `left after ${delay} ms`,
        )
        expect((await sandbox.listSessions()).filter(({ id }) => id !== 'default')).toEqual([])
      }
    }))

  it('is possible when the server is away', async () => {
    const client = new SandboxClient({ url: 'http://127.0.0.1:1' })
    expect(await rejectionOf(client.exec('true'))).toMatchObject({ code: 'CONNECTION_FAILED' })
    await client.destroy()
  })
})

describe('close', () => {
  it('ends the requests, and leaves what this client has begun', () =>
    withServer(async ({ url, sandbox }) => {
      const client = new SandboxClient({ url })
      await client.startProcess('sleep 60', { processId: 'goes-on' })
      await client.createSession({ id: 'stays' })
      const pending = rejectionOf(client.exec('sleep 60'))
      await Promise.all([client.close(), client.close()])
      expect(await pending).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      expect(await rejectionOf(client.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      await client.destroy()
      expect((await sandbox.listProcesses({ status: 'running' })).map(({ id }) => id)).toEqual(['goes-on'])
      expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default', 'stays'])
    }))
})
