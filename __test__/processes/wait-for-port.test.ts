import { createServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import { freePort, serverCommand } from '../helpers/serving.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('waitForPort', () => {
  itInEveryMode('resolves when the process listens', async ({ sandbox, directory }) => {
    const port = await freePort()
    const process = await sandbox.startProcess(serverCommand({ port, after: `${directory}/go` }))
    const waiting = process.waitForPort(port, { timeout: 10_000, interval: 20 })
    await sandbox.exec('touch go')
    await waiting
    await process.waitForLog('listening')
  })

  it('resolves when a child of the process listens', () =>
    withSandbox(async ({ sandbox }) => {
      const port = await freePort()
      const [program = '', ...args] = serverCommand({ port }).map(
        (word) => `'${word.replaceAll("'", "'\\''")}'`,
      )
      const process = await sandbox.startProcess(`(setsid ${program} ${args.join(' ')}) & wait`)
      await process.waitForPort(port, { timeout: 10_000 })
    }))

  it('does not take the port of another process for its own', () =>
    withSandbox(async ({ sandbox }) => {
      const server = createTcpServer()
      const port = await new Promise<number>((resolve) => {
        server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
      })
      const other = await sandbox.startProcess('sleep 60')
      const error = await rejectionOf(other.waitForPort(port, { timeout: 300 }))
      expect(error).toMatchObject({ code: 'PROCESS_READY_TIMEOUT', logTail: '' })
      expect(error.message).toContain(
        `300 ms passed before it listened on port ${port}. It has printed nothing.`,
      )
      await new Promise((resolve) => server.close(resolve))
    }))

  it('waits for an answer with the status that is asked for', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const port = await freePort()
      const status = `q.url === '/ok' ? 204 : existsSync('${directory}/go') ? 200 : 503`
      const process = await sandbox.startProcess(serverCommand({ port, status }))
      await process.waitForPort(port, { timeout: 10_000 })
      await process.waitForPort(port, { path: '/ok', status: 204, timeout: 10_000 })
      await process.waitForPort(port, { status: { min: 500 }, timeout: 10_000 })
      const error = await rejectionOf(process.waitForPort(port, { mode: 'http', timeout: 200 }))
      expect(error.message).toContain(`before it answered for http://localhost:${port}/ with 200 to 399`)
      const waiting = process.waitForPort(port, { mode: 'http', timeout: 10_000 })
      await sandbox.exec('touch go')
      await waiting
    }))

  it('asks at ::1 when nothing listens at 127.0.0.1', () =>
    withSandbox(async ({ sandbox }) => {
      const port = await freePort()
      const process = await sandbox.startProcess(serverCommand({ port, host: '::1' }))
      await process.waitForPort(port, { mode: 'http', timeout: 10_000 })
    }))

  it('rejects when the process ends before, and immediately when it has ended', () =>
    withSandbox(async ({ sandbox }) => {
      const port = await freePort()
      const process = await sandbox.startProcess('sleep 0.1; echo cannot bind >&2; exit 1')
      for (let round = 0; round < 2; round++) {
        const error = await rejectionOf(process.waitForPort(port))
        expect(error).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'cannot bind\n' })
      }
    }))

  it('is given up by an abort, also while the server keeps it waiting', () =>
    withSandbox(async ({ sandbox }) => {
      const port = await freePort()
      const silent = `require('node:net').createServer(() => console.log('asked')).listen(${port}, '127.0.0.1')`
      const process = await sandbox.startProcess([globalThis.process.execPath, '-e', silent])
      const controller = new AbortController()
      const waiting = rejectionOf(process.waitForPort(port, { mode: 'http', signal: controller.signal }))
      await process.waitForLog('asked', { timeout: 10_000 })
      controller.abort('enough')
      expect(await waiting).toMatchObject({ code: 'ABORT_ERR', cause: 'enough' })
    }))
})

describe('the host', () => {
  it('may serve the same port elsewhere: only the process counts', () =>
    withSandbox(async ({ sandbox }) => {
      const server = createServer((_, response) => response.end('host'))
      const port = await new Promise<number>((resolve) => {
        server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
      })
      const process = await sandbox.startProcess('sleep 60')
      const error = await rejectionOf(process.waitForPort(port, { mode: 'http', timeout: 200 }))
      expect(error).toMatchObject({ code: 'PROCESS_READY_TIMEOUT' })
      await new Promise((resolve) => server.close(resolve))
    }))
})
