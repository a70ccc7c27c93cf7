/** Holds over HTTP: they last as long as the stream that reports them. */
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { type ReceivedEvent, withServer } from '../../../__test__/helpers/http.js'
import { stoppingProxy } from '../../../__test__/helpers/tcp-proxy.js'
import { attach, pty } from '../../../__test__/helpers/terminal.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'

/** The first event of a hold. */
async function first(events: AsyncIterator<ReceivedEvent>): Promise<string> {
  const { value } = await events.next()
  expect(value.data).toEqual({ type: 'held', hold: expect.stringMatching(/^[0-9a-f-]{36}$/) })
  return value.data.hold
}

describe('a hold over HTTP', () => {
  it('is used by its header, and ends by DELETE', () =>
    withServer(async ({ stream, call, post }) => {
      const path = '/v1/sessions/default/hold'
      const events = stream('POST', path, { owner: 'page' })[Symbol.asyncIterator]()
      const hold = await first(events)
      const command = { command: 'echo x' }
      expect(await post('/v1/exec', command)).toMatchObject({
        ...{ status: 423, body: { code: 'HELD', message: expect.stringContaining('"page"') } },
      })
      expect(await post(path, { owner: 'other' })).toMatchObject({ status: 423, body: { code: 'HELD' } })
      const contract = await post('/api/execute', { ...command, sessionId: 'default' })
      expect(contract).toMatchObject({ status: 423, body: { code: 'HELD' } })
      const headers = { 'x-nacre-hold': hold }
      expect(await call('POST', '/v1/exec', command, headers)).toMatchObject({
        ...{ status: 200, body: { result: { stdout: 'x\n' } } },
      })
      expect(await call('DELETE', path)).toMatchObject({ status: 423, body: { code: 'HELD' } })
      const wrong = { 'x-nacre-hold': 'wrong' }
      expect((await call('POST', '/v1/exec', command, wrong)).status).toBe(423)
      expect((await call('DELETE', path, undefined, wrong)).status).toBe(200)
      expect((await post('/v1/exec', command)).status).toBe(423)
      expect((await call('DELETE', path, undefined, headers)).status).toBe(200)
      expect((await post('/v1/exec', command)).status).toBe(200)
      expect((await events.next()).value.data).toEqual({ type: 'complete', hold })
      expect((await events.next()).done).toBe(true)
      expect((await call('POST', '/v1/exec', command, headers)).status).toBe(423)
    }))

  it('ends with its connection', () =>
    withServer(async ({ stream, post }) => {
      const held = stream('POST', '/v1/sessions/default/hold', { owner: 'page' })
      await first(held[Symbol.asyncIterator]())
      expect((await post('/v1/exec', { command: 'true' })).status).toBe(423)
      held.vanish()
      await holds(async () => (await post('/v1/exec', { command: 'true' })).status === 200)
    }))

  it('survives broken connections of a client that resumes, and ends with the client', () =>
    withServer(async ({ serving, post }) => {
      const proxy = await stoppingProxy(serving.port)
      const client = new SandboxClient({ url: proxy.url, resume: true })
      const session = await client.getSession('default')
      const hold = await session?.hold('page')
      for (let round = 0; round < 3; round++) {
        for (const socket of proxy.sockets) socket.destroy()
        expect((await hold?.held.exec('echo mine'))?.stdout).toBe('mine\n')
        expect((await post('/v1/exec', { command: 'true' })).status).toBe(423)
      }
      await client.destroy()
      await hold?.ended
      await holds(async () => (await post('/v1/exec', { command: 'true' })).status === 200)
      await proxy.close()
    }))

  it('is used by a terminal, whose other clients still watch', () =>
    withServer(async ({ url, sandbox, stream }) => {
      const process = await sandbox.startProcess('stty -echo; echo on; cat', { pty, processId: 'one' })
      await process.waitForLog('on')
      const watcher = await attach(url, 'one')
      const hold = await first(
        stream('POST', '/v1/processes/one/hold', { owner: 'page' })[Symbol.asyncIterator](),
      )
      const owner = await attach(url, 'one', { query: `?hold=${hold}` })
      watcher.socket.send(Buffer.from('no\n'))
      watcher.socket.send('{"resize":{"cols":91,"rows":17}}')
      await holds(() => watcher.notes.length === 2)
      for (const { type, error } of watcher.notes) expect([type, error.code]).toEqual(['error', 'HELD'])
      expect(watcher.notes.map(({ refused }) => refused).sort()).toEqual(['input', 'resize'])
      owner.socket.send(Buffer.from('yes\n'))
      await watcher.printed('yes')
      expect(owner.notes).toEqual([])
      expect((await process.getLogs()).stdout).toBe('on\r\nyes\r\n')
      await process.kill()
      expect([(await watcher.closed).code, (await owner.closed).code]).toEqual([1000, 1000])
    }))

  it('keeps the rest of an input from its process, and the logger of the client hears of it', () =>
    withServer(async ({ url, sandbox }) => {
      const warnings: string[] = []
      const none = () => {}
      const warn = (message: string) => void warnings.push(message)
      const client = new SandboxClient({ url, logger: { debug: none, info: none, warn, error: none } })
      const command = 'until [ -e go ]; do sleep 0.01; done; cat > /dev/null'
      const input = Buffer.alloc(3_000_000)
      const { process: detached } = await client.exec(command, { detachAfter: 10, input })
      const started = await client.startProcess(command, { input })
      const holds = [await detached?.hold('page'), await started.hold('page')]
      await sandbox.exec('touch go')
      await until(
        () => warnings.length === 2 || undefined,
        () => `warnings: ${warnings}`,
      )
      expect(warnings.sort()).toEqual(
        [detached, started]
          .map(
            (held) =>
              `process '${held?.id}' does not get the rest of its input: SandboxError: process '${held?.id}' is held by "page": try again when it is released`,
          )
          .sort(),
      )
      for (const hold of holds) await hold?.held.closeInput()
      expect(await detached?.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(await started.waitForExit()).toMatchObject({ exitCode: 0 })
      await client.destroy()
    }))

  it('ends with the server', () =>
    withServer(async ({ serving, url, sandbox }) => {
      const client = new SandboxClient({ url })
      const session = await client.getSession('default')
      const hold = await session?.hold('page')
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'HELD' })
      await serving.close()
      await hold?.ended
      expect((await sandbox.exec('echo ok')).stdout).toBe('ok\n')
      await client.destroy()
    }))
})
