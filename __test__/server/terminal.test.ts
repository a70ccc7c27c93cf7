/** The WebSocket of a terminal: bytes both ways, sizes, its end, its callers, and bounds in both directions. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { serve } from 'nacre/server'
import { beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type Body, withServer } from '../helpers/http.js'
import { active, rawClient } from '../helpers/terminal.js'
import { until } from '../helpers/until.js'

const pty = { cols: 80, rows: 24 }
const token = 'a-token-that-nobody-knows'

interface Ended {
  code: number
  reason: string
}

interface Attached {
  socket: WebSocket
  /** What the terminal has printed, with plain line ends. */
  text(): string
  /** Text messages of the server. */
  notes: Body[]
  printed(text: string): Promise<void>
  closed: Promise<Ended>
}

/** Opens a terminal. Rejects when the server refuses. */
async function attach(
  url: string,
  id: string,
  { query = '', protocols = [] as string[], headers = {} as Record<string, string> } = {},
): Promise<Attached> {
  const address = `${url.replace('http', 'ws')}/v1/processes/${id}/terminal${query}`
  const socket = new WebSocket(address, protocols, { headers })
  const pieces: Buffer[] = []
  const notes: Body[] = []
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) pieces.push(data)
    else notes.push(JSON.parse(data.toString()))
  })
  const closed = new Promise<Ended>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }))
  })
  const text = () => Buffer.concat(pieces).toString().replaceAll('\r\n', '\n')
  await once(socket, 'open')
  return {
    ...{ socket, text, notes, closed },
    printed: async (wanted) => {
      await until(
        () => text().includes(wanted) || undefined,
        () => `not printed: ${JSON.stringify(wanted)}, but ${JSON.stringify(text())}`,
        10_000,
      )
    },
  }
}

/** The status and the body of a request for a WebSocket that is refused. */
async function refusal(port: number, path: string, headers: Record<string, string> = {}) {
  const socket = await rawClient(port, path, headers)
  let text = ''
  socket.on('data', (data) => {
    text += data
  })
  socket.resume()
  await once(socket, 'end')
  socket.destroy()
  const [head = '', body = ''] = text.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1]), body: JSON.parse(body) as Body }
}

/** A binary message from a client, with a mask of zeros. */
function frame(payload: Uint8Array): Buffer {
  const head = Buffer.alloc(14)
  head[0] = 0x82
  head[1] = 0x80 | 127
  head.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([head, payload])
}

// Bun opens a pipe when a response is first written to a connection as it is. It then belongs to what there is before a test.
beforeAll(async () => {
  await using sandbox = new Sandbox()
  await using serving = await serve(sandbox, { port: 0, handleSignals: false })
  expect((await refusal(serving.port, '/v1/nothing')).status).toBe(404)
})

describe('a terminal over a WebSocket', () => {
  it('carries bytes both ways and closes with the exit code of the process', () =>
    withServer(async ({ url, sandbox }) => {
      await sandbox.startProcess('read -r line; echo "<$line>"; exit 3', { pty, processId: 'one' })
      const terminal = await attach(url, 'one')
      terminal.socket.send(Buffer.from('typed ä\n'))
      await terminal.printed('<typed ä>')
      expect(await terminal.closed).toEqual({
        code: 1000,
        reason: '{"exitCode":3,"signal":null,"reason":"exit"}',
      })
      expect(terminal.text()).toBe('typed ä\n<typed ä>\n')
    }))

  it('closes with the signal that ended the process', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('echo on; sleep 60', { pty })
      const terminal = await attach(url, process.id)
      await terminal.printed('on')
      await process.kill('SIGKILL')
      const { code, reason } = await terminal.closed
      expect([code, JSON.parse(reason)]).toEqual([
        1000,
        { exitCode: null, signal: 'SIGKILL', reason: 'killed' },
      ])
    }))

  it('resizes the terminal on a text message', () =>
    withServer(async ({ url, sandbox }) => {
      const script = "trap 'stty size' WINCH; echo on; until [ -e done ]; do sleep 0.01; done"
      const process = await sandbox.startProcess(script, { pty })
      const terminal = await attach(url, process.id)
      await terminal.printed('on')
      terminal.socket.send('{"resize":{"cols":91,"rows":17}}')
      await terminal.printed('17 91')
      await sandbox.exec('touch done')
      expect((await terminal.closed).code).toBe(1000)
    }))

  it('replays earlier output from a cursor on, even after the process has ended', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('echo 0123456789', { pty })
      await process.wait()
      const whole = await attach(url, process.id)
      expect((await whole.closed).code).toBe(1000)
      expect(whole.text()).toBe('0123456789\n')
      const rest = await attach(url, process.id, { query: '?since=4' })
      await rest.closed
      expect(rest.text()).toBe('456789\n')
    }))

  it('serves several clients, and keeps the process when they disconnect', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('cat', { pty })
      const [first, second] = [await attach(url, process.id), await attach(url, process.id)]
      first.socket.send(Buffer.from('from the first\n'))
      await second.printed('from the first\nfrom the first\n')
      first.socket.terminate()
      await first.closed
      second.socket.send(Buffer.from('from the second\n'))
      await second.printed('from the second\nfrom the second\n')
      second.socket.close()
      await second.closed
      await until(
        async () => (await active(url)) === 1 || undefined,
        () => 'a request goes on without its client',
      )
      expect(process.status).toBe('running')
    }))

  it('reports how many bytes the log no longer has', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('seq 100000', { pty, logLimit: 1000 })
      await process.wait()
      const terminal = await attach(url, process.id)
      await terminal.closed
      const lost = terminal.notes.reduce((sum, note) => sum + note.missing, 0)
      const bytes = Buffer.byteLength(terminal.text().replaceAll('\n', '\r\n'))
      expect(lost).toBeGreaterThan(100_000)
      expect(lost + bytes).toBe(688_895)
    }))
})

describe('a message that is not understood', () => {
  it('closes the WebSocket on a message that it cannot understand, and keeps the process', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('cat', { pty })
      const cases: Array<[string | Buffer, number, string]> = [
        ['resize', 1008, '{"resize"'],
        ['{"resize":{"cols":80}}', 1008, '{"resize"'],
        ['{"resize":{"cols":0,"rows":24}}', 1008, 'cols'],
        ['{"resize":{"cols":80,"rows":24},"x":1}', 1008, '{"resize"'],
        [Buffer.alloc(1024 * 1024 + 1), 1009, ''],
      ]
      for (const [message, code, text] of cases) {
        const terminal = await attach(url, process.id)
        terminal.socket.send(message)
        const closed = await terminal.closed
        expect(closed.code).toBe(code)
        expect(closed.reason).toContain(text)
      }
      expect(process.status).toBe('running')
    }))
})

describe('callers of a terminal', () => {
  it('refuses callers with the same error envelopes as other routes', () =>
    withServer(async ({ serving, sandbox, url }) => {
      await sandbox.startProcess('sleep 60', { processId: 'plain' })
      await sandbox.startProcess('sleep 60', { processId: 'one', pty })
      const { port } = serving
      const at = (id: string) => `/v1/processes/${id}/terminal`
      expect(await refusal(port, at('none'))).toMatchObject({
        status: 404,
        body: { code: 'PROCESS_NOT_FOUND' },
      })
      expect(await refusal(port, at('plain'))).toMatchObject({
        status: 400,
        body: { code: 'INVALID_OPTION' },
      })
      expect((await refusal(port, `${at('one')}?since=x`)).body.code).toBe('VALIDATION_FAILED')
      expect((await refusal(port, '/v1/nothing')).body.code).toBe('NOT_FOUND')
      const evil = { Origin: 'https://evil.example' }
      expect(await refusal(port, at('one'), evil)).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } })
      expect((await refusal(port, at('one'), { Host: 'evil.example' })).status).toBe(403)
      const plain = await fetch(url + at('one'))
      expect([plain.status, plain.headers.get('upgrade')]).toEqual([426, 'websocket'])
      expect(((await plain.json()) as Body).code).toBe('UPGRADE_REQUIRED')
      expect(await active(url)).toBe(1)
    }))

  it('accepts the token as a header or as a subprotocol', () =>
    withServer(
      async ({ url, serving, sandbox }) => {
        const process = await sandbox.startProcess('echo on; sleep 60', { pty })
        const at = `/v1/processes/${process.id}/terminal`
        const offer = (protocols: string) => ({ 'Sec-WebSocket-Protocol': protocols })
        const wrong: Array<Record<string, string>> = [
          {},
          { Authorization: 'Bearer wrong' },
          offer('nacre.token.wrong'),
        ]
        for (const headers of wrong)
          expect(await refusal(serving.port, at, headers)).toMatchObject({ status: 401 })
        expect((await refusal(serving.port, `${at}?token=${token}`)).status).toBe(401)
        const byHeader = await attach(url, process.id, { headers: { Authorization: `Bearer ${token}` } })
        const encoded = `nacre.token.${token.replace('t', '%74')}`
        const byProtocol = await attach(url, process.id, { protocols: [encoded] })
        const both = await attach(url, process.id, { protocols: [`nacre.token.${token}`, 'nacre.terminal'] })
        expect([byHeader, byProtocol, both].map(({ socket }) => socket.protocol)).toEqual([
          '',
          encoded,
          'nacre.terminal',
        ])
        for (const terminal of [byHeader, byProtocol, both]) {
          await terminal.printed('on')
          terminal.socket.close()
          await terminal.closed
        }
        // Only a WebSocket may be opened by it.
        const response = await fetch(`${url}/v1/sessions`, { headers: offer(`nacre.token.${token}`) })
        expect(response.status).toBe(401)
      },
      { token },
    ))

  it('accepts pages of an allowed origin', () =>
    withServer(
      async ({ url, sandbox }) => {
        const process = await sandbox.startProcess('echo on', { pty })
        const terminal = await attach(url, process.id, { headers: { Origin: 'https://good.example' } })
        expect((await terminal.closed).code).toBe(1000)
      },
      { allowedOrigins: ['https://good.example'] },
    ))

  it('counts a terminal as a request and logs it when it is closed', () => {
    const lines: string[] = []
    const logger = { debug() {}, info: (line: string) => lines.push(line), warn() {}, error() {} }
    return withServer(
      async ({ url, sandbox }) => {
        const process = await sandbox.startProcess('echo on; sleep 60', { pty, processId: 'one' })
        const terminal = await attach(url, process.id)
        await terminal.printed('on')
        expect(await active(url)).toBe(2)
        expect(lines.filter((line) => line.includes('terminal'))).toEqual([])
        terminal.socket.close()
        await until(
          () => lines.find((line) => /^GET \/v1\/processes\/one\/terminal 101 \d+ ms$/.test(line)),
          () => `no line: ${lines}`,
        )
      },
      { logger },
    )
  })
})

describe('a silent terminal', () => {
  it('pings a silent client', () =>
    withServer(
      async ({ url, sandbox }) => {
        const process = await sandbox.startProcess('sleep 60', { pty })
        const terminal = await attach(url, process.id)
        await once(terminal.socket, 'ping')
        terminal.socket.close()
        await terminal.closed
      },
      { heartbeat: 20 },
    ))
})

describe('bounds of a terminal', () => {
  it('holds back a client that types faster than the process reads, and loses nothing', () =>
    withServer(async ({ serving, sandbox, directory }) => {
      const bytes = 16 * 1024 * 1024
      const process = await sandbox.startProcess(
        `stty raw -echo; echo on; until [ -e go ]; do sleep 0.01; done; head -c ${bytes} | sha1sum`,
        { pty },
      )
      await process.waitForLog('on')
      const client = await rawClient(serving.port, `/v1/processes/${process.id}/terminal`)
      const chunk = Buffer.alloc(64 * 1024, 'nacre')
      for (let sent = 0; sent < bytes; sent += chunk.length) client.write(frame(chunk))
      let last = 0
      // The kernel takes some of it; the rest waits in the client.
      await until(
        async () => {
          const now = client.writableLength
          const isSame = now === last && now > bytes / 2
          last = now
          if (!isSame) await new Promise((resolve) => setTimeout(resolve, 200))
          return isSame || undefined
        },
        () => `${client.writableLength} bytes wait`,
        10_000,
      )
      expect(client.writableLength).toBeGreaterThan(bytes / 2)
      writeFileSync(path.join(directory, 'go'), '')
      await process.wait({ timeout: 15_000 })
      const { createHash } = await import('node:crypto')
      const whole = Buffer.concat(Array.from({ length: bytes / chunk.length }, () => chunk))
      expect((await process.getLogs()).stdout).toContain(createHash('sha1').update(whole).digest('hex'))
      client.destroy()
    }))
})

describe('the end of the server', () => {
  it('closes terminals when the server ends, even those of clients that do not read', () =>
    withServer(
      async ({ url, serving, sandbox }) => {
        const process = await sandbox.startProcess('yes', { pty, logLimit: 8 * 1024 * 1024 })
        const idle = await sandbox.startProcess('echo on; sleep 60', { pty })
        const terminal = await attach(url, idle.id)
        await terminal.printed('on')
        const stuck = await rawClient(serving.port, `/v1/processes/${process.id}/terminal`)
        await until(
          async () => (await active(url)) === 3 || undefined,
          () => 'the client has not come',
        )
        const begun = performance.now()
        await serving.close()
        expect(performance.now() - begun).toBeLessThan(9000)
        expect(await terminal.closed).toEqual({ code: 1001, reason: 'the server ends' })
        stuck.destroy()
      },
      { shutdownTimeout: 10_000 },
    ))
})

describe('a request that offers another protocol', () => {
  it('answers a request that offers h2c over HTTP/1.1', () =>
    withServer(async ({ serving }) => {
      const body = JSON.stringify({ command: 'echo plain' })
      const socket = connect(serving.port, '127.0.0.1')
      let text = ''
      socket.on('data', (data) => {
        text += data
      })
      const head = [
        'POST /v1/exec HTTP/1.1',
        'Host: localhost',
        'Connection: Upgrade, HTTP2-Settings',
        'Upgrade: h2c',
        'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA',
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 9)}`)
      await new Promise((resolve) => setImmediate(resolve))
      socket.write(body.slice(9))
      await until(
        () => text.includes('plain\\n') || undefined,
        () => `the answer is ${JSON.stringify(text)}`,
      )
      expect(text).toMatch(/^HTTP\/1.1 200/)
      socket.destroy()
    }))
})
