import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
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

  itInSandbox('resolves when a child of the process listens', async ({ sandbox }) => {
    const port = await freePort()
    const [program = '', ...args] = serverCommand({ port }).map(
      (word) => `'${word.replaceAll("'", "'\\''")}'`,
    )
    const process = await sandbox.startProcess(`(setsid ${program} ${args.join(' ')}) & wait`)
    await process.waitForPort(port, { timeout: 10_000 })
  })

  itInSandbox('does not take the port of another process for its own', async ({ sandbox }) => {
    const server = createServer((_, response) => response.end('host'))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const other = await sandbox.startProcess('sleep 60')
    const error = await rejectionOf(other.waitForPort(port, { timeout: 300 }))
    expect(error).toMatchObject({ code: 'PROCESS_READY_TIMEOUT', logTail: '' })
    expect(error.message).toContain(
      `300 ms passed before it listened on port ${port}; raise the timeout if it needs longer. It has printed nothing.`,
    )
    const answered = other.waitForPort(port, { mode: 'http', timeout: 200 })
    expect(await rejectionOf(answered)).toMatchObject({ code: 'PROCESS_READY_TIMEOUT' })
    await new Promise((resolve) => server.close(resolve))
  })

  itInSandbox('waits for an answer with the status that is asked for', async ({ sandbox, directory }) => {
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
  })

  itInSandbox('asks at ::1 when nothing listens at 127.0.0.1', async ({ sandbox }) => {
    const port = await freePort()
    const process = await sandbox.startProcess(serverCommand({ port, host: '::1' }))
    await process.waitForPort(port, { mode: 'http', timeout: 10_000 })
  })

  itInSandbox(
    'rejects when the process ends before, and immediately when it has ended',
    async ({ sandbox }) => {
      const port = await freePort()
      const process = await sandbox.startProcess('sleep 0.1; echo cannot bind >&2; exit 1')
      for (let round = 0; round < 2; round++) {
        const error = await rejectionOf(process.waitForPort(port))
        expect(error).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'cannot bind\n' })
      }
    },
  )

  itInSandbox('is given up by an abort, also while the server keeps it waiting', async ({ sandbox }) => {
    const port = await freePort()
    const silent = `require('node:net').createServer(() => console.log('asked')).listen(${port}, '127.0.0.1')`
    const process = await sandbox.startProcess([globalThis.process.execPath, '-e', silent])
    const controller = new AbortController()
    const waiting = rejectionOf(process.waitForPort(port, { mode: 'http', signal: controller.signal }))
    await process.waitForLog('asked', { timeout: 10_000 })
    controller.abort('enough')
    expect(await waiting).toMatchObject({ code: 'ABORT_ERR', cause: 'enough' })
  })
})
