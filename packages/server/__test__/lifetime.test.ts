/** How a server ends, and how it stays with clients that wait long. */
import { once } from 'node:events'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer } from '@nacre/server'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../../../__test__/helpers/host.js'
import { dataOf, withServer } from '../../../__test__/helpers/http.js'
import { inTime } from '../../../__test__/helpers/in-time.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { made } from '../../../__test__/helpers/stream.js'
import { active } from '../../../__test__/helpers/terminal.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds } from '../../../__test__/helpers/until.js'

describe('the end of a server', () => {
  it.each([
    ['/v1/exec', { command: 'touch ran' }],
    ['/v1/exec/stream', { command: 'touch ran' }],
    ['/v1/processes', { command: 'touch ran' }],
    ['/v1/jobs', { command: 'touch ran', cwd: '.' }],
    ['/api/process/start', { command: 'touch ran' }],
  ])('starts nothing for a request to %s whose body arrives then', (path, body) =>
    withServer(async ({ serving, sandbox, directory }) => {
      const text = JSON.stringify(body)
      const socket = connect(serving.port, '127.0.0.1')
      await once(socket, 'connect')
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json`
      socket.write(`${head}\r\nContent-Length: ${text.length}\r\n\r\n${text.slice(0, 5)}`)
      await holds(async () => (await active(serving.url)) === 2)
      const closed = serving.close()
      socket.write(text.slice(5))
      let reply = ''
      for await (const data of socket) reply += data
      expect(reply).toMatch(/^HTTP\/1\.1 503 /)
      expect(reply).toContain('"code":"SHUTTING_DOWN"')
      await closed
      expect(await sandbox.listProcesses()).toEqual([])
      expect(readdirSync(directory)).toEqual([])
    }),
  )

  it('ends commands, processes and streams, and then answers no more', () =>
    withServer(async ({ serving, sandbox, url, stream }) => {
      const client = new SandboxClient({ url, reconnectTimeout: 0 })
      const process = await client.startProcess("trap '' TERM; echo on; sleep 65 & wait; wait", {
        forceKillAfterDelay: 50,
      })
      await process.waitForLog('on')
      let run: Promise<unknown> | undefined
      await new Promise<void>((begun) => {
        run = rejectionOf(client.exec('echo x; sleep 65', { onOutput: () => begun() }))
      })
      const plain = rejectionOf(client.exec('sleep 65', { sessionId: (await client.createSession()).id }))
      const log = dataOf(stream('GET', `/api/process/${process.id}/stream`)).catch(() => 'cut')
      const wait = rejectionOf(process.waitForExit())
      await holds(async () => (await active(serving.url)) === 5)
      await serving.close()
      expect(await sandbox.listProcesses({ status: 'running' })).toEqual([])
      // The program did not abort it.
      const end = { message: 'the server ends' }
      const message = expect.stringMatching(/^the server ends: /)
      expect(await run).toMatchObject({ name: 'AbortError', message, shortMessage: message, cause: end })
      expect(await plain).toMatchObject({ name: 'AbortError', message, cause: end })
      expect(await wait).toMatchObject({ name: 'AbortError', message, cause: end })
      await log
      expect(await rejectionOf(client.exec('true'))).toMatchObject({ code: 'CONNECTION_FAILED' })
      expect((await sandbox.exec('echo free')).stdout).toBe('free\n')
    }))
})

it('a program whose server has started a process can end by itself', async () => {
  const host = startHost(`
    const { createServer } = require('@nacre/server')
    const main = async () => {
      const server = createServer(new Sandbox({ cwd: '/tmp' }), { authenticated: true })
      const start = new Request('http://localhost/v1/processes', {
        method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ command: 'sleep 60' }),
      })
      print('status ' + (await server.fetch(start)).status)
    }
    main()
  `)
  expect(await host.ended()).toBe(0)
  expect(host.output()).toContain('status 200')
  await expectGone(host.tag)
})

describe('close', () => {
  it('waits for a client that reads the reply of an ended command slowly', () =>
    withServer(async ({ serving, directory }) => {
      const bytes = 15 * 1024 * 1024
      const command = `head -c ${bytes} /dev/zero | tr '\\0' x; touch printed; sleep 60`
      const headers = { 'content-type': 'application/json' }
      const asked = request(`${serving.url}/v1/exec`, { method: 'POST', headers })
      asked.end(JSON.stringify({ command }))
      const answered = once(asked, 'response')
      await made(directory, 'printed')
      const closed = serving.close()
      const [reply] = (await answered) as [IncomingMessage]
      const pieces: Buffer[] = []
      for await (const piece of reply) {
        pieces.push(piece)
        await sleep(10)
      }
      expect(reply.statusCode).toBe(503)
      const { code, context } = JSON.parse(Buffer.concat(pieces).toString())
      expect([code, context.result.stdout.length]).toEqual(['ABORT_ERR', bytes])
      await closed
    }))

  it('hangs terminals up: an interactive shell does not hold up the end', () =>
    withServer(async ({ serving, sandbox }) => {
      const delay = 600_000
      const shell = await sandbox.startProcess('exec bash -i', { pty: true, forceKillAfterDelay: delay })
      await shell.write('echo re""ady\n')
      await shell.waitForLog('ready')
      expect(await serving.close()).toBe(true)
      expect((await shell.waitForExit()).signal).not.toBe('SIGKILL')
    }))

  it.each([1, 8, 16, 64])('sends the rest of a reply of %s MiB that is complete', (mebibytes) =>
    withServer(async ({ serving, directory }) => {
      const bytes = mebibytes * 1024 * 1024
      writeFileSync(path.join(directory, 'large'), Buffer.alloc(bytes, 'x'))
      const routes = ['/v1/sessions/default/files/content?path=large']
      const body = JSON.stringify({ command: 'cat large', maxBuffer: bytes })
      const headers = { 'content-type': 'application/json' }
      const asked = [
        ...routes.map((route) => request(serving.url + route).end()),
        request(`${serving.url}/v1/exec`, { method: 'POST', headers }).end(body),
      ]
      const replies = await Promise.all(asked.map(async (sent) => (await once(sent, 'response'))[0]))
      for (const reply of replies) reply.pause()
      const closed = serving.close()
      const lengths = await Promise.all(
        replies.map(async (reply: IncomingMessage) => {
          let length = 0
          for await (const piece of reply) length += piece.length
          return length
        }),
      )
      expect(lengths[0]).toBe(bytes)
      expect(lengths[1]).toBeGreaterThan(bytes)
      expect(await closed).toBe(true)
    }),
  )

  it('ends a stream of events with an event that says so', () =>
    withServer(async ({ serving, sandbox, stream }) => {
      const process = await sandbox.startProcess('seq 300000; sleep 65')
      await process.waitForLog('300000')
      const data = dataOf(stream('GET', `/api/process/${process.id}/stream`))
      await holds(async () => (await active(serving.url)) === 2)
      await serving.close()
      expect((await data).at(-1)).toMatchObject({ type: 'error', error: 'reading the log was aborted' })
    }))

  it('waits for no client that reads neither its events nor its download', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const server = createServer(sandbox, { authenticated: true })
      const loud = await sandbox.startProcess('seq 3000000')
      await loud.waitForExit()
      writeFileSync(path.join(directory, 'large'), Buffer.alloc(8 * 1024 * 1024))
      const ask = (route: string, body?: object) =>
        server.fetch(
          new Request(`http://localhost${route}`, {
            ...(body && { method: 'POST', body: JSON.stringify(body) }),
            headers: { 'content-type': 'application/json' },
          }),
        )
      const replies = await Promise.all([
        ask(`/v1/processes/${loud.id}/output?follow=true`),
        ask('/v1/exec/stream', { command: 'seq 3000000; sleep 60' }),
        ask('/v1/sessions/default/files/content?path=large'),
        ask('/v1/sessions/default/files/watch'),
      ])
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200])
      await server.close()
    }))
})

/** A server with a process that ignores SIGTERM. */
async function stubbornServer(shutdownTimeout: number) {
  const host = startHost(`
    const { serve } = require('@nacre/server')
    const { endOnSignals } = require('./packages/server/dist/cli/end-on-signals.js')
    const logger = { debug() {}, info: print, warn: print, error: print }
    const sandbox = new Sandbox({ cwd: '/tmp', forceKillAfterDelay: 60_000 })
    const main = async () => {
      const process = await sandbox.startProcess("trap '' TERM; echo on; while :; do sleep 60; done")
      await process.waitForLog('on')
      const serving = await serve(sandbox, { port: 0, logger, shutdownTimeout: ${shutdownTimeout} })
      endOnSignals({ sandbox, serving, recording: undefined }, ${shutdownTimeout}, logger)
      print('serves')
    }
    main()
  `)
  await host.printed('serves')
  return host
}

describe('a signal to a server', () => {
  for (const [first, second, code] of [
    ['SIGTERM', 'SIGTERM', 143],
    ['SIGTERM', 'SIGINT', 130],
    ['SIGINT', 'SIGINT', 130],
  ] as const) {
    it(`ends the server immediately when ${second} follows ${first}`, async () => {
      const host = await stubbornServer(60_000)
      try {
        host.child.kill(first)
        await host.printed(`${first}: the server ends`)
        host.child.kill(second)
        expect(await host.ended()).toBe(code)
        await expectGone(host.tag)
      } finally {
        host.child.kill('SIGKILL')
      }
    })
  }

  it('exits with the code of the signal when not everything ended in time', async () => {
    const host = await stubbornServer(100)
    try {
      host.child.kill('SIGTERM')
      expect(await host.ended()).toBe(143)
      expect(host.output()).toContain('not everything ended within 100 ms')
      await expectGone(host.tag)
    } finally {
      host.child.kill('SIGKILL')
    }
  })
})

describe('a client that disconnects', () => {
  it('frees its place, although the process that it writes to does not read', () =>
    withServer(
      async ({ serving, url, post }) => {
        await post('/v1/processes', { command: 'sleep 60', processId: 'idle', openInput: true })
        const data = 'x'.repeat(1024 * 1024)
        for (const path of Array(6).fill('/v1/processes/idle/input')) {
          const leave = new AbortController()
          const write = fetch(url + path, {
            ...{ method: 'POST', body: JSON.stringify({ data }), signal: leave.signal },
            headers: { 'content-type': 'application/json' },
          })
          await holds(async () => (await active(url)) === 2)
          leave.abort()
          await rejectionOf(write)
          await holds(async () => (await active(url)) === 1)
        }
        await serving.close()
      },
      { maxRequests: 4, shutdownTimeout: 2_000_000_000 },
    ))

  it('frees its place after HEAD of a route of events', () =>
    withServer(
      async ({ serving, url, post }) => {
        await post('/v1/processes', { command: 'sleep 60', processId: 'idle' })
        for (let count = 0; count < 6; count++) {
          const reply = await fetch(`${url}/v1/processes/idle/output`, { method: 'HEAD' })
          expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
        }
        expect((await fetch(`${url}/v1/processes/none/output`, { method: 'HEAD' })).status).toBe(404)
        expect(await active(url)).toBe(1)
        await serving.close()
      },
      { maxRequests: 4, shutdownTimeout: 2_000_000_000 },
    ))
})

describe('a call that takes long', () => {
  it('has a response that begins in time and ends with the reply, or an error', () =>
    withServer(
      async ({ url, directory }) => {
        const send = (body: object) =>
          fetch(`${url}/v1/exec`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify(body),
          })
        const waits = 'until [ -e go ]; do sleep 0.01; done'
        const go = () => writeFileSync(path.join(directory, 'go'), '')
        const response = await send({ command: `${waits}; rm go; echo x` })
        go()
        const text = await response.text()
        expect(text).toMatch(/^ +\{/)
        expect(JSON.parse(text).result.stdout).toBe('x\n')
        const failing = await send({ command: `${waits}; exit 3`, check: true })
        expect(failing.status).toBe(200)
        go()
        expect(await failing.json()).toMatchObject({ code: 'COMMAND_FAILED', httpStatus: 422 })
        const late = await send({ command: 'sleep 60', timeout: 300 })
        expect(await late.json()).toMatchObject({ code: 'COMMAND_TIMEOUT', httpStatus: 504 })
        const client = new SandboxClient({ url })
        expect(await rejectionOf(client.exec('sleep 60', { timeout: 300 }))).toMatchObject({
          code: 'COMMAND_TIMEOUT',
        })
        await client.destroy()
      },
      { heartbeat: 50 },
    ))

  it('is given up when the client disconnects', () =>
    withServer(async ({ url, sandbox }) => {
      const leave = new AbortController()
      const request = fetch(`${url}/v1/exec`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ command: 'echo > begun; sleep 66' }),
        signal: leave.signal,
      })
      await using other = await sandbox.createSession()
      await other.exec('until [ -e begun ]; do sleep 0.01; done')
      leave.abort()
      await expect(request).rejects.toThrow()
      expect((await sandbox.exec('echo free', { timeout: 10_000 })).stdout).toBe('free\n')
    }))
})

describe('fetch', () => {
  it('answers without a listener, and with that of the runtime', () =>
    withSandbox(async ({ sandbox }) => {
      const { fetch: answer } = createServer(sandbox)
      const ask = (peer?: object) =>
        answer(new Request('http://localhost/api/session/list'), peer).then(({ status }) => status)
      expect(await ask()).toBe(403)
      expect(await ask({ requestIP: () => ({ address: '127.0.0.1' }) })).toBe(200)
      expect(await ask({ requestIP: () => ({ address: '192.0.2.7' }) })).toBe(403)
      expect(await ask({ incoming: { socket: { remoteAddress: '192.0.2.7' } } })).toBe(403)
      const bun = (globalThis as { Bun?: { serve(options: object): { url: URL; stop(): Promise<void> } } })
        .Bun
      if (bun === undefined) return
      const listener = bun.serve({ port: 0, hostname: '127.0.0.1', fetch: answer })
      const client = new SandboxClient({ url: listener.url })
      const lines: string[] = []
      for await (const line of client.execStream('seq 3').lines()) lines.push(line)
      expect(lines).toEqual(['1', '2', '3'])
      await client.destroy()
      await listener.stop()
    }))
})

describe('/metrics', () => {
  it('counts commands, processes, bytes, restarts and kills', () =>
    withServer(async ({ url, post, directory }) => {
      await post('/api/execute', { command: 'echo 12345' })
      await post('/api/execute', { command: 'exit 3' })
      await post('/api/execute', { command: 'kill -9 $$' })
      let timeouts = 0
      const stubborn = async (timeout: number) => {
        timeouts++
        const command = "trap '' TERM; touch begun; sleep 60 & wait; wait"
        await post('/v1/exec', { command, timeout, forceKillAfterDelay: 50 })
      }
      const hasBegun = () => existsSync(path.join(directory, 'begun'))
      await inTime(100, stubborn, hasBegun)
      await post('/api/process/start', { command: 'sleep 60', processId: 'one' })
      const text = await (await fetch(`${url}/metrics`)).text()
      for (const line of [
        'nacre_commands_total{outcome="success"} 1',
        'nacre_commands_total{outcome="failure"} 2',
        `nacre_commands_total{outcome="timeout"} ${timeouts}`,
        `nacre_command_duration_seconds_count ${timeouts + 3}`,
        `nacre_command_duration_seconds_bucket{le="+Inf"} ${timeouts + 3}`,
        'nacre_processes 1',
        'nacre_processes_started_total 1',
        'nacre_output_bytes_total 6',
        'nacre_session_restarts_total 1',
        `nacre_session_commands_total{session="default"} ${timeouts + 3}`,
        'nacre_http_requests_active 1',
      ])
        expect(text.split('\n')).toContain(line)
      expect(text).toMatch(/^nacre_kill_escalations_total [1-9]/m)
      for (const line of text.trimEnd().split('\n'))
        expect(line).toMatch(/^(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"\})? [\d.e+-]+)$/)
    }))
})
