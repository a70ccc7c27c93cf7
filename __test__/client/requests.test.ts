/** Requests of a client: their headers, their time limit, and which of them are repeated. */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { SandboxClient } from 'nacre/client'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Fate, failingProxy, linesOf } from '../helpers/failing-proxy.js'
import { withServer } from '../helpers/http.js'
import { inTime } from '../helpers/in-time.js'
import { withProxy } from '../helpers/proxied-client.js'
import { made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const token = 'a-token-for-tests'

// Bun opens a pipe when node:http makes its first request. It then belongs to what there is before a test.
beforeAll(async () => {
  const proxy = await failingProxy(1)
  await fetch(proxy.url).catch(() => {})
  await proxy.close()
})

describe('headers', () => {
  it('sends extra headers and the token with every request', () =>
    withProxy(
      async ({ client, proxy }) => {
        await client.exec('true')
        await client.listSessions()
        for await (const _ of client.execStream('true'));
        const job = await client.jobs.start({ command: 'true' })
        for await (const _ of client.jobs.follow(job));
        await client.jobs.remove(job)
        expect(proxy.requests.length).toBeGreaterThanOrEqual(6)
        for (const { headers } of proxy.requests)
          expect(headers).toMatchObject({ 'x-tenant': 'seven', authorization: `Bearer ${token}` })
      },
      { token, headers: { 'X-Tenant': 'seven' } },
      { token },
    ))

  it("sends an authorization header instead of the token's", () =>
    withProxy(
      async ({ client, proxy }) => {
        expect((await client.exec('echo x', { timeout: 5000 })).stdout).toBe('x\n')
        expect(proxy.requests[0]?.headers.authorization).toBe(`bearer ${token}`)
      },
      { token: 'for-the-other-server', headers: { Authorization: `bearer ${token}` } },
      { token },
    ))

  it('ignores a content-type header, since bodies are JSON', () =>
    withProxy(async ({ client }) => expect((await client.exec('echo x')).stdout).toBe('x\n'), {
      headers: { 'content-type': 'text/plain' },
    }))
})

describe('an idempotent request', () => {
  it('repeats an idempotent request after 502, 503, 504, a cut connection and a lost reply', () =>
    withServer(async ({ serving }) => {
      const fates: Fate[] = [502, 503, 504, 'cut', 'lose']
      const repeats = async (fate: Fate) => {
        const proxy = await failingProxy(serving.port)
        const client = new SandboxClient({ url: proxy.url })
        proxy.next.push(fate, fate, fate)
        const ids = (await client.listSessions()).map(({ id }) => id)
        await client.destroy()
        await proxy.close()
        return { fate, ids, lines: linesOf(proxy) }
      }
      // Concurrently, since each waits between its attempts.
      const lines = Array(4).fill('GET /v1/sessions')
      expect(await Promise.all(fates.map(repeats))).toEqual(
        fates.map((fate) => ({ fate, ids: ['default'], lines })),
      )
    }))

  it('gives up an idempotent request after four attempts', () =>
    withProxy(async ({ client, proxy }) => {
      proxy.next.push(502, 503, 'cut', 504)
      const error = await rejectionOf(client.capabilities())
      expect(error).toMatchObject({ code: 'CONNECTION_FAILED' })
      expect(error.message).toBe(
        '/v1/capabilities was answered with status 504 by a proxy: check that the server behind it runs',
      )
      expect(linesOf(proxy)).toHaveLength(4)
    }))

  it('names the remedy when another server answers', () =>
    withProxy(async ({ client, proxy }) => {
      for (const status of [200, 404]) {
        proxy.next.push(status)
        const error = await rejectionOf(client.capabilities())
        expect(error).toMatchObject({ code: 'CONNECTION_FAILED' })
        expect(error.message).toBe(
          `/v1/capabilities was answered with status ${status}, not by a nacre server: ` +
            'check the URL of the server, and the proxies before it',
        )
        expect(linesOf(proxy)).toHaveLength(1)
      }
    }))

  it.each([
    ['another server that answers with success', '{"hello":"world"}', {}],
    ['a server that answers with no object', 'null', { 'x-nacre-instance': 'other' }],
    ['a server that answers with another object', '{"hello":"world"}', { 'x-nacre-instance': 'other' }],
    [
      'a server that answers with other types',
      '{"result":{"stdout":5},"processes":5,"jobs":[null]}',
      { 'x-nacre-instance': 'other' },
    ],
  ])('takes nothing from %s', async (_, body, headers) => {
    const other = createServer((_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(body)
    })
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    const client = new SandboxClient({
      ...{ url: `http://127.0.0.1:${(other.address() as AddressInfo).port}`, reconnectTimeout: 1 },
    })
    try {
      const calls = {
        exec: () => client.exec('true'),
        stream: async () => (await client.execStream('true').result).exitCode,
        follow: () => client.jobs.follow('a').next(),
        listProcesses: () => client.listProcesses(),
        jobs: () => client.jobs.list(),
      }
      for (const [name, call] of Object.entries(calls)) {
        const message = expect.stringContaining('check the URL of the server')
        expect([name, await rejectionOf(call())]).toMatchObject([
          name,
          { code: 'CONNECTION_FAILED', message },
        ])
      }
    } finally {
      await client.destroy()
      await new Promise((closed) => {
        other.close(closed)
        other.closeAllConnections()
      })
    }
  })

  it('does not repeat a request after a permanent error', () =>
    withProxy(async ({ client, proxy }) => {
      for (const status of [400, 403, 404, 500, 501]) {
        proxy.next.push(status)
        expect(await rejectionOf(client.capabilities())).toMatchObject({ code: 'CONNECTION_FAILED' })
      }
      expect(await client.getProcess('none')).toBeNull()
      expect(linesOf(proxy)).toHaveLength(6)
    }))

  it('counts a repeated removal as done when nothing is left to remove', () =>
    withProxy(async ({ client, proxy, sandbox }) => {
      await client.createSession({ id: 'one' })
      const job = await client.jobs.start({ command: 'true' })
      proxy.next.push('lose')
      expect(await client.jobs.wait(job)).toMatchObject({ state: 'exited' })
      linesOf(proxy)
      proxy.next.push('lose')
      await client.deleteSession('one')
      proxy.next.push('lose')
      await client.jobs.remove(job)
      expect(linesOf(proxy)).toHaveLength(4)
      expect(await sandbox.getSession('one')).toBeNull()
      expect(await rejectionOf(client.deleteSession('one'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
      expect(await rejectionOf(client.jobs.remove(job))).toMatchObject({ code: 'JOB_NOT_FOUND' })
    }))

  it('stops repeating a request when its signal is aborted or the client is destroyed', () =>
    withProxy(async ({ client, proxy }) => {
      const process = await client.startProcess('sleep 60')
      linesOf(proxy)
      const leave = new AbortController()
      proxy.next.push('cut', 'cut', 'cut', 'cut')
      const wait = rejectionOf(process.waitForExit({ signal: leave.signal }))
      await holds(() => proxy.requests.length > 0)
      leave.abort()
      expect(await wait).toMatchObject({ name: 'AbortError' })
      proxy.next.length = 0
      const other = new SandboxClient({ url: proxy.url })
      proxy.next.push('cut', 'cut', 'cut', 'cut')
      const list = rejectionOf(other.listSessions())
      await holds(() => proxy.requests.length > 1)
      await other.destroy()
      expect(await list).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      proxy.next.length = 0
    }))
})

describe('a request with effects', () => {
  for (const fate of ['lose', 'cut', 503] as const) {
    it(`never repeats a command, a start, input or a signal after ${fate}`, () =>
      withProxy(
        async ({ client, proxy, sandbox }) => {
          const process = await client.startProcess('cat', { input: 'pipe', processId: 'cat' })
          linesOf(proxy)
          const calls: Array<[string, () => Promise<unknown>]> = [
            ['POST /v1/exec', () => client.exec('echo exec >> ran')],
            ['POST /v1/exec/stream', () => client.execStream('echo stream >> ran').result],
            ['POST /v1/env', () => client.setEnvVars({ X: '1' })],
            ['POST /v1/sessions', () => client.createSession()],
            ['POST /v1/processes', () => client.startProcess('echo process >> ran')],
            ['POST /v1/jobs', () => client.jobs.start({ command: 'true' })],
            ['POST /v1/processes/cat/input', () => process.write('once\n')],
            ['POST /v1/processes/cat/kill', () => process.kill()],
          ]
          for (const [line, call] of calls) {
            proxy.next.push(fate)
            expect(await rejectionOf(call())).toMatchObject({ code: 'CONNECTION_FAILED' })
            expect(linesOf(proxy)).toEqual([line])
          }
          const wanted = fate === 'lose' ? 'exec\nprocess\nstream\n' : ''
          const ran = async () => (await sandbox.exec('sort ran 2>/dev/null')).stdout
          await holds(async () => (await ran()).length >= wanted.length)
          expect(await ran()).toBe(wanted)
        },
        {},
        { keepAlive: true },
      ))
  }
})

describe('requestTimeout', () => {
  const REQUEST_TIMEOUT = 500

  /** Makes a request that is never answered, and waits for its time limit. */
  const passLimit = async (port: number) => {
    const proxy = await failingProxy(port)
    const client = new SandboxClient({ url: proxy.url, requestTimeout: REQUEST_TIMEOUT })
    proxy.next.push('hang')
    const error = await rejectionOf(client.createSession())
    await client.destroy()
    await proxy.close()
    expect(error.message).toContain('was not answered within 500 ms (requestTimeout)')
  }

  it('rejects a request that is not answered in time, and names the option', () =>
    withProxy(
      async ({ client, proxy, sandbox }) => {
        proxy.next.push('hang')
        const error = await rejectionOf(client.listSessions())
        expect(error).toMatchObject({ code: 'CONNECTION_FAILED' })
        expect(error.message).toBe(`${proxy.url}/v1/sessions was not answered within 500 ms (requestTimeout)`)
        expect(linesOf(proxy)).toEqual(['GET /v1/sessions'])
        proxy.next.push('hang')
        expect(await rejectionOf(client.createSession())).toMatchObject({ code: 'CONNECTION_FAILED' })
        expect((await sandbox.listSessions()).length).toBe(1)
      },
      { requestTimeout: REQUEST_TIMEOUT },
    ))

  it('limits all attempts of a request together', () =>
    withProxy(async ({ proxy }) => {
      const run = async (requestTimeout: number) => {
        const client = new SandboxClient({ url: proxy.url, requestTimeout })
        proxy.next.splice(0, 2, 'cut', 'hang')
        const { message } = await rejectionOf(client.listSessions())
        await client.destroy()
        return { message, attempts: linesOf(proxy).length, requestTimeout }
      }
      const { message, attempts, requestTimeout } = await inTime(500, run, (end) => end.attempts === 2)
      expect(message).toContain(`${requestTimeout} ms (requestTimeout)`)
      expect(attempts).toBe(2)
    }))

  it('does not limit commands, streams and waits', () =>
    withProxy(
      async ({ client, sandbox, directory, serving }) => {
        const untilGo = 'until [ -e go ]; do sleep 0.01; done'
        const command = (name: string) => `cd ${directory}; touch ${name}; ${untilGo}; echo x`
        await sandbox.createSession({ id: 'other' })
        const process = await client.startProcess(command('process'))
        // A program that it starts is killed, too.
        const stubborn = await client.startProcess(
          `trap ': > kill; ${untilGo}; exit' TERM; echo on; while :; do sleep 0.01; done`,
        )
        await stubborn.waitForLog('on')
        const job = await sandbox.jobs.start({ command: command('job') })
        const follow = async () => {
          let text = ''
          for await (const { raw } of client.jobs.follow(job)) text += raw
          return text
        }
        const calls = Promise.all([
          client.exec(command('exec')),
          client.execStream(command('stream'), { sessionId: 'other' }).result,
          process.waitForExit(),
          stubborn.kill('SIGTERM', { forceKillAfterDelay: 600_000 }),
          client.jobs.wait(job),
          follow(),
        ])
        const begun = ['exec', 'stream', 'process', 'kill', 'job']
        await Promise.race([calls, Promise.all(begun.map((name) => made(directory, name)))])
        // A request that was made later has reached its limit: theirs would have ended the calls.
        await passLimit(serving.port)
        writeFileSync(path.join(directory, 'go'), '')
        expect(await calls).toMatchObject([
          { stdout: 'x\n' },
          { stdout: 'x\n' },
          { exitCode: 0 },
          true,
          { exitCode: 0 },
          'x\n',
        ])
        await sandbox.jobs.remove(job)
      },
      { requestTimeout: REQUEST_TIMEOUT },
    ))
})

describe('an abort', () => {
  it.each([false, true])('settles a command that the server does not answer, with resume: %s', (resume) =>
    withProxy(
      async ({ proxy, client }) => {
        await client.exec('true')
        proxy.next.push('hang')
        const abort = new AbortController()
        const running = rejectionOf(client.exec('touch ran', { signal: abort.signal }))
        await holds(() => proxy.requests.some(({ line }) => line === 'POST /v1/exec/stream'))
        abort.abort('enough')
        expect(await running).toMatchObject({ name: 'AbortError', cause: 'enough' })
        expect((await client.exec('ls')).stdout).toBe('')
      },
      { resume },
    ),
  )

  it('settles a command when the server does not answer the abort, and ends the command', () =>
    withProxy(async ({ proxy, client }) => {
      const abort = new AbortController()
      const onOutput = () => {
        proxy.next.push('hang')
        abort.abort('enough')
      }
      const running = rejectionOf(client.exec('echo x; sleep 60', { signal: abort.signal, onOutput }))
      expect(await running).toMatchObject({ name: 'AbortError', cause: 'enough' })
      expect((await client.exec('echo free')).stdout).toBe('free\n')
    }))
})

it('a session that another client deletes takes the waiting calls with it', () =>
  withProxy(async ({ client, sandbox, directory }) => {
    const running = rejectionOf(client.exec('touch begun; sleep 60'))
    const waiting = rejectionOf(client.exec('touch ran'))
    await made(directory, 'begun')
    await sandbox.deleteSession('default')
    expect(await running).toMatchObject({ code: 'SESSION_DESTROYED' })
    expect(await waiting).toMatchObject({ code: 'SESSION_DESTROYED' })
    expect((await client.exec('ls')).stdout).toBe('begun\n')
  }))

describe('a range of a file', () => {
  it('is the same when the server sends the whole file', () =>
    withServer(async ({ url, directory, sandbox }) => {
      writeFileSync(path.join(directory, 'digits'), '0123456789')
      const client = new SandboxClient({
        url,
        fetch: (input, init) => {
          const headers = new Headers(init?.headers)
          headers.delete('range')
          return fetch(input, { ...init, headers })
        },
      })
      for (const [file, range] of [
        ['digits', { start: 2, end: 5 }],
        ['digits', { start: 7 }],
        ['digits', { start: 20 }],
        ['/proc/self/limits', { start: 6, end: 40 }],
      ] as const) {
        const [here, there] = [sandbox, client].map(({ files }) => files.readStream(file, range))
        expect(await new Response(there).text()).toBe(await new Response(here).text())
      }
      await client.destroy()
    }))

  it('is not taken from another range', () =>
    withServer(async ({ url, directory }) => {
      writeFileSync(path.join(directory, 'digits'), '0123456789')
      const client = new SandboxClient({
        url,
        fetch: (input, init) => {
          const headers = new Headers(init?.headers)
          if (headers.has('range')) headers.set('range', 'bytes=1-3')
          return fetch(input, { ...init, headers })
        },
      })
      const stream = client.files.readStream('digits', { start: 2, end: 5 })
      expect(await rejectionOf(new Response(stream).text())).toMatchObject({ code: 'CONNECTION_FAILED' })
      await client.destroy()
    }))
})
