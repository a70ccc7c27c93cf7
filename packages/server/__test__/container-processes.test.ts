/** Background processes as clients of a sandbox container know them. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { dataOf, type ReceivedEvent, textOf, withServer } from '../../../__test__/helpers/http.js'
import { freePort, serverCommand } from '../../../__test__/helpers/serving.js'

const isoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

const quote = (words: string[]) => words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')

describe('processes of the container', () => {
  it('are started, listed, looked at and killed', () =>
    withServer(async ({ post, get, call, sandbox }) => {
      const started = await post('/api/process/start', {
        command: 'sleep 60',
        processId: 'one',
        encoding: 'utf8',
      })
      const { pid } = started.body
      expect(started.body).toEqual({
        success: true,
        processId: 'one',
        pid,
        command: 'sleep 60',
        timestamp: isoTime,
      })
      const one = { id: 'one', pid, command: 'sleep 60', status: 'running', startTime: isoTime }
      expect((await get('/api/process/one')).body).toEqual({
        success: true,
        process: one,
        timestamp: isoTime,
      })
      await post('/api/process/start', { command: 'exit 3', processId: 'two', autoCleanup: false })
      await (await sandbox.getProcess('two'))?.waitForExit()
      const { processes } = (await get('/api/process/list')).body
      expect(processes).toEqual([
        one,
        expect.objectContaining({ id: 'two', status: 'failed', exitCode: 3, endTime: isoTime }),
      ])
      expect((await get('/api/process/list?status=failed')).body.processes).toHaveLength(1)
      expect((await get('/api/process/list?status=odd')).status).toBe(400)
      const killed = { status: 200, body: { success: true, processId: 'one', timestamp: isoTime } }
      expect(await call('DELETE', '/api/process/one?signal=SIGINT')).toEqual(killed)
      expect(await call('DELETE', '/api/process/one')).toEqual(killed)
      expect((await get('/api/process/one')).body.process).toMatchObject({ status: 'killed', exitCode: 130 })
      expect((await post('/api/process/cleanup')).body).toEqual({
        success: true,
        cleanedCount: 2,
        timestamp: isoTime,
      })
    }))

  it('are refused by name when something is wrong with them', () =>
    withServer(async ({ post, get, call }) => {
      for (const route of ['/api/process/none', '/api/process/none/logs', '/api/process/none/stream'])
        expect(await get(route)).toMatchObject({
          status: 404,
          body: { code: 'PROCESS_NOT_FOUND', context: { processId: 'none' } },
        })
      expect(await call('DELETE', '/api/process/none')).toMatchObject({
        status: 404,
        body: { code: 'PROCESS_NOT_FOUND' },
      })
      expect(await post('/api/process/start', { command: '' })).toMatchObject({
        status: 400,
        body: { code: 'INVALID_COMMAND' },
      })
      for (const processId of ['../../x', 'a/b', 'x'.repeat(200), ''])
        expect(await post('/api/process/start', { command: 'true', processId })).toMatchObject({
          status: 400,
          body: { code: 'VALIDATION_FAILED' },
        })
      expect((await get('/api/process/..%2f..%2fx')).status).toBe(400)
      await post('/api/process/start', { command: 'sleep 60', processId: 'one' })
      expect(await post('/api/process/start', { command: 'true', processId: 'one' })).toMatchObject({
        status: 409,
      })
      expect((await call('DELETE', '/api/process/one?signal=SIGFOO')).body.code).toBe('VALIDATION_FAILED')
    }))

  it('are all killed by one call', () =>
    withServer(async ({ post, call }) => {
      for (let count = 0; count < 3; count++) await post('/api/process/start', { command: 'sleep 60' })
      const killed = await call('DELETE', '/api/process/kill-all')
      expect(killed.body).toEqual({ success: true, cleanedCount: 3, timestamp: isoTime })
    }))

  it('have logs, whole and as a stream that goes on anywhere', () =>
    withServer(async ({ post, get, stream, directory }) => {
      const command =
        'until [ -e go ]; do sleep 0.01; done; for i in 1 2 3 4 5; do echo line $i; echo e$i >&2; sleep 0.02; done; exit 3'
      await post('/api/process/start', { command, processId: 'one' })
      const all: ReceivedEvent[] = []
      for await (const event of stream('GET', '/api/process/one/stream')) {
        if (all.push(event) === 1) writeFileSync(path.join(directory, 'go'), '')
      }
      expect(all[0]?.data).toMatchObject({
        type: 'process_info',
        processId: 'one',
        command,
        status: 'running',
      })
      expect(all.at(-1)?.data).toEqual({ type: 'exit', processId: 'one', exitCode: 3, timestamp: isoTime })
      const text = 'line 1\nline 2\nline 3\nline 4\nline 5\n'
      const texts = (events: typeof all) => textOf(events.map(({ data }) => data))
      expect(texts(all)).toBe(text)
      expect((await get('/api/process/one/logs')).body).toEqual({
        success: true,
        processId: 'one',
        stdout: text,
        stderr: 'e1\ne2\ne3\ne4\ne5\n',
        timestamp: isoTime,
      })
      for (const [index, { id }] of all.entries()) {
        const before = texts(all.slice(0, index + 1))
        const header = await dataOf(
          stream('GET', '/api/process/one/stream', undefined, { 'last-event-id': id ?? '' }),
        )
        const query = await dataOf(stream('GET', `/api/process/one/stream?cursor=${id}`))
        for (const rest of [header, query]) {
          expect(before + textOf(rest)).toBe(text)
          expect(rest.at(-1)).toMatchObject({ type: 'exit', exitCode: 3 })
        }
      }
      expect((await get('/api/process/one/stream?cursor=x')).status).toBe(400)
    }))

  it('continue when the reader of their log disconnects', () =>
    withServer(async ({ post, get, stream }) => {
      await post('/api/process/start', { command: 'echo begun; sleep 60', processId: 'one' })
      const reply = stream('GET', '/api/process/one/stream')
      await expect(
        (async () => {
          for await (const { data } of reply) if (data.type === 'stdout') reply.vanish()
        })(),
      ).rejects.toThrow()
      expect((await get('/api/process/one')).body.process.status).toBe('running')
    }))
})

describe('POST /api/port-watch', () => {
  it('reports when a process serves its port', () =>
    withServer(async ({ post, stream }) => {
      const port = await freePort()
      await post('/api/process/start', { command: quote(serverCommand({ port })), processId: 'web' })
      for (const body of [
        { port, mode: 'http', path: '/', statusMin: 200, statusMax: 299, processId: 'web', interval: 20 },
        { port, mode: 'tcp', processId: 'web' },
        { port, mode: 'tcp' },
        { port, mode: 'http', interval: 20 },
      ]) {
        const events = await dataOf(stream('POST', '/api/port-watch', body))
        expect(events.map(({ type }) => type)).toEqual(['watching', 'ready'])
      }
    }))

  it('reports when the process ends first, and refuses ports that cannot be watched', () =>
    withServer(async ({ post, stream }) => {
      const port = await freePort()
      await post('/api/process/start', { command: 'exit 3', processId: 'one' })
      const events = await dataOf(stream('POST', '/api/port-watch', { port, mode: 'tcp', processId: 'one' }))
      expect(events).toMatchObject([
        { type: 'watching', port },
        { type: 'process_exited', exitCode: 3 },
      ])
      const unknown = await post('/api/port-watch', { port, mode: 'tcp', processId: 'none' })
      expect(unknown).toMatchObject({ status: 404, body: { code: 'PROCESS_NOT_FOUND' } })
      for (const bad of [
        { port: 0, mode: 'tcp' },
        { port, mode: 'udp' },
        { port, mode: 'http', path: 'x' },
      ])
        expect((await post('/api/port-watch', bad)).body.code).toBe('VALIDATION_FAILED')
    }))
})
