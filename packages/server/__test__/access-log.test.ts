/** The server logs one line per request, and a client that disconnects is not an error. */
import { connect } from 'node:net'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { startHost } from '../../../__test__/helpers/host.js'
import { withServer } from '../../../__test__/helpers/http.js'
import { holds, until } from '../../../__test__/helpers/until.js'

const token = 'a-token-for-tests'

function collectingLogger() {
  const lines: Record<'debug' | 'info' | 'warn' | 'error', string[]> = {
    debug: [],
    info: [],
    warn: [],
    error: [],
  }
  const logger = {
    debug: (message: string) => lines.debug.push(message),
    info: (message: string) => lines.info.push(message),
    warn: (message: string) => lines.warn.push(message),
    error: (message: string) => lines.error.push(message),
  }
  return { logger, lines }
}

/** A line without its duration. */
const withoutTime = (line: string) => line.replace(/ \d+ ms/, ' N ms')

describe('the access log', () => {
  it('logs method, path, status and milliseconds of each request', () => {
    const { logger, lines } = collectingLogger()
    return withServer(
      async ({ get, post, call, url }) => {
        await get('/v1/sessions')
        await post('/v1/exec', { command: 'exit 3' })
        await post('/v1/exec', { command: 'exit 3', check: true })
        await get('/v1/processes/none')
        await call('DELETE', '/v1/nothing')
        await fetch(`${url}/v1/env`, { method: 'POST', body: 'x' })
        expect(lines.info.map(withoutTime)).toEqual([
          'GET /v1/sessions 200 N ms',
          'POST /v1/exec 200 N ms',
          'POST /v1/exec 422 N ms',
          'GET /v1/processes/none 404 N ms',
          'DELETE /v1/nothing 404 N ms',
          'POST /v1/env 415 N ms',
        ])
      },
      { logger },
    )
  })

  it('logs a path still encoded, without what could drive a terminal', () => {
    const { logger, lines } = collectingLogger()
    return withServer(
      async ({ get }) => {
        await get('/v1/runs/%0AGET%20%2Fforged%20200%1B%5B2J%C2%9B/x')
        expect(lines.info.map(withoutTime)).toEqual([
          'GET /v1/runs/%0AGET%20%2Fforged%20200%1B%5B2J%C2%9B/x 404 N ms',
        ])
      },
      { logger },
    )
  })

  it('answers requests even when the logger throws', () => {
    const { logger } = collectingLogger()
    const info = () => {
      throw new Error('no space left')
    }
    return withServer(async ({ get }) => expect((await get('/v1/sessions')).status).toBe(200), {
      logger: { ...logger, info },
    })
  })

  it('logs no header, query, body or output', () => {
    const { logger, lines } = collectingLogger()
    return withServer(
      async ({ get, post, url }) => {
        await post('/v1/exec', {
          command: 'echo secret-$X',
          env: { X: 'secret-value' },
          input: 'secret-input',
        })
        await get('/v1/processes?sessionId=secret-query')
        expect((await fetch(`${url}/v1/sessions?token=secret-token`)).status).toBe(401)
        expect(lines.info).toHaveLength(3)
        const text = Object.values(lines).flat().join('\n')
        expect(text).not.toMatch(/secret|a-token/)
      },
      { logger, token },
    )
  })

  it('logs a stream when it ends, and a wait when it is over', () => {
    const { logger, lines } = collectingLogger()
    return withServer(
      async ({ url }) => {
        const client = new SandboxClient({ url })
        for await (const _ of client.execStream('sleep 0.3; echo x'));
        await client.exec('sleep 0.3')
        await client.destroy()
        for (const [index, path] of ['/v1/exec/stream', '/v1/exec'].entries()) {
          const [, time] = new RegExp(`^POST ${path} 200 (\\d+) ms$`).exec(lines.info[index] ?? '') ?? []
          expect(Number(time)).toBeGreaterThanOrEqual(290)
        }
      },
      { logger, heartbeat: 50 },
    )
  })

  it('logs requests that are refused because there are too many', () => {
    const { logger, lines } = collectingLogger()
    return withServer(
      async ({ get, stream, post }) => {
        await post('/v1/processes', { command: 'sleep 60', processId: 'one' })
        const reply = stream('GET', '/v1/processes/one/output')
        const events = reply[Symbol.asyncIterator]().next()
        await holds(async () => (await get('/v1/sessions')).status === 503)
        expect(lines.info.map(withoutTime)).toContain('GET /v1/sessions 503 N ms')
        reply.vanish()
        await events.catch(() => {})
      },
      { logger, maxRequests: 1 },
    )
  })
})

describe('a client that disconnects', () => {
  const head = 'POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
  const requests = {
    'while its command runs': (body: string) => `${head}Content-Length: ${body.length}\r\n\r\n${body}`,
    'in the middle of a body': (body: string) => `${head}Content-Length: ${body.length + 9}\r\n\r\n${body}`,
    'in the middle of a body in chunks': (body: string) =>
      `${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`,
    'while it reads a stream': (body: string) =>
      `${head.replace('/exec', '/exec/stream')}Content-Length: ${body.length}\r\n\r\n${body}`,
  }
  for (const [when, request] of Object.entries(requests)) {
    it(`logs no error when a client disconnects ${when}`, () => {
      const { logger, lines } = collectingLogger()
      return withServer(
        async ({ serving, get }) => {
          const begun = lines.info.length
          const socket = connect(serving.port, '127.0.0.1')
          socket.write(request(JSON.stringify({ command: 'echo x; sleep 60' })))
          await until(
            async () => {
              const text = await (await fetch(`${serving.url}/metrics`)).text()
              return text.includes('nacre_http_requests_active 2') || undefined
            },
            () => 'the request has not arrived',
          )
          socket.destroy()
          const line = () => lines.info.slice(begun).find((text) => text.startsWith('POST'))
          await until(line, () => `no line: ${lines.info}`)
          expect(line()).toMatch(/^POST \/v1\/exec\S* 499 \d+ ms$/)
          expect((await get('/healthz')).status).toBe(200)
          expect([lines.warn, lines.error]).toEqual([[], []])
        },
        { logger },
      )
    })
  }

  it('prints nothing about clients that disconnect when the server has no logger', async () => {
    const host = startHost(`
      const { serve } = require('@nacre/server')
      serve(new Sandbox({ cwd: '/tmp' }), { port: 0 }).then(({ port }) => print('port ' + port + '.'))
    `)
    try {
      await host.printed('.\n')
      const port = Number(/port (\d+)\./.exec(host.output())?.[1])
      const printed = host.output()
      const active = async () => {
        const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
        return Number(/^nacre_http_requests_active (\d+)$/m.exec(text)?.[1])
      }
      for (const request of Object.values(requests)) {
        const socket = connect(port, '127.0.0.1')
        socket.write(request(JSON.stringify({ command: 'while echo 0123456789; do :; done' })))
        await holds(async () => (await active()) === 2)
        socket.destroy()
        await holds(async () => (await active()) === 1)
      }
      host.child.kill('SIGTERM')
      await host.ended()
      expect(host.output()).toBe(printed)
    } finally {
      host.child.kill('SIGKILL')
    }
  })
})
