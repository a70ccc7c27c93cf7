/** WebSockets on the one connection of `nacre serve --stdio`, by the method CONNECT (RFC 8441). */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from 'node:http2'
import path from 'node:path'
import { Duplex } from 'node:stream'
import { expect, it } from 'vitest'
import { server, withTag } from '../../../__test__/helpers/program.js'
import { frame } from '../../../__test__/helpers/terminal.js'
import { holds, until } from '../../../__test__/helpers/until.js'

/** The messages in whole frames of a server, which have no mask: their opcodes and contents. */
function messagesOf(bytes: Buffer): Array<[number, Buffer]> {
  const messages: Array<[number, Buffer]> = []
  for (let at = 0; at + 4 <= bytes.length; ) {
    const short = bytes.readUInt8(at + 1)
    const start = short === 126 ? at + 4 : at + 2
    const end = start + (short === 126 ? bytes.readUInt16BE(at + 2) : short)
    if (end > bytes.length) break
    messages.push([bytes.readUInt8(at) & 15, bytes.subarray(start, end)])
    at = end
  }
  return messages
}

const BINARY = 2
const CLOSE = 8

/** A connection to a server on standard input and output. */
function withSession(
  test: (session: ClientHttp2Session, place: { child: ChildProcess; directory: string }) => Promise<void>,
): Promise<void> {
  return withTag(async (tag, directory) => {
    const [file = '', ...args] = [...server, '--cwd', directory]
    const child = spawn(file, args, {
      env: { ...process.env, NACRE_TEST_TAG: tag },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const pipes = Duplex.from({ readable: child.stdout, writable: child.stdin })
    const session = connect('http://localhost', { createConnection: () => pipes })
    try {
      await once(session, 'remoteSettings')
      await test(session, { child, directory })
    } finally {
      session.close()
      child.stdin.end()
      await once(child, 'close')
    }
  })
}

async function ask(session: ClientHttp2Session, headers: OutgoingHttpHeaders, body?: object) {
  const stream = session.request(
    { 'content-type': 'application/json', ...headers },
    { endStream: body === undefined },
  )
  if (body !== undefined) stream.end(JSON.stringify(body))
  let text = ''
  stream.on('data', (data) => {
    text += data
  })
  const ended = once(stream, 'close')
  const [received] = await once(stream, 'response')
  await ended
  return { status: received[':status'] as number, text }
}

const open = { ':method': 'CONNECT', ':protocol': 'websocket' }

it('carries a terminal both ways, and closes with the exit code of the process', () =>
  withSession(async (session) => {
    const body = { command: 'read -r line; echo "<$line>"; exit 3', processId: 'one', pty: true }
    expect((await ask(session, { ':method': 'POST', ':path': '/v1/processes' }, body)).status).toBe(200)
    expect(session.remoteSettings.enableConnectProtocol).toBe(true)
    const stream = session.request(
      { ...open, ':path': '/v1/processes/one/terminal', 'sec-websocket-protocol': 'nacre.terminal' },
      { endStream: false },
    )
    const [headers] = await once(stream, 'response')
    expect([headers[':status'], headers['sec-websocket-protocol']]).toEqual([200, 'nacre.terminal'])
    const pieces: Buffer[] = []
    stream.on('data', (piece: Buffer) => pieces.push(piece))
    const closed = once(stream, 'close')
    stream.write(frame(Buffer.from('typed\n')))
    const last = await until(
      () => messagesOf(Buffer.concat(pieces)).find(([opcode]) => opcode === CLOSE)?.[1],
      () => `not closed: ${Buffer.concat(pieces)}`,
    )
    expect(last.readUInt16BE(0)).toBe(1000)
    expect(JSON.parse(last.toString('utf8', 2))).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    const printed = messagesOf(Buffer.concat(pieces)).filter(([opcode]) => opcode === BINARY)
    expect(Buffer.concat(printed.map(([, data]) => data)).toString()).toContain('<typed>')
    // The answer to a close, with a mask.
    stream.end(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]))
    await closed
  }))

it('refuses what is no WebSocket, and what has no terminal', () =>
  withSession(async (session) => {
    const path = '/v1/processes/none/terminal'
    const none = await ask(session, { ...open, ':path': path })
    expect([none.status, JSON.parse(none.text).code]).toEqual([404, 'PROCESS_NOT_FOUND'])
    expect((await ask(session, { ...open, ':protocol': 'other', ':path': path })).status).toBe(501)
    expect((await ask(session, { ...open, ':path': '/v1/nothing' })).status).toBe(404)
    const plain = await ask(session, { ':method': 'GET', ':path': path })
    expect([plain.status, JSON.parse(plain.text).code]).toEqual([426, 'UPGRADE_REQUIRED'])
    await holds(async () =>
      (await ask(session, { ':path': '/metrics' })).text.includes('nacre_http_requests_active 1\n'),
    )
  }))

it.each([1, 16, 64])('a signal lets the rest of a reply of %s MiB out', (mebibytes) =>
  withSession(async (session, { child, directory }) => {
    const bytes = mebibytes * 1024 * 1024
    writeFileSync(path.join(directory, 'large'), Buffer.alloc(bytes, 'x'))
    const stream = session.request({ ':path': '/v1/sessions/default/files/content?path=large' })
    const [headers] = await once(stream, 'response')
    expect(headers[':status']).toBe(200)
    child.kill('SIGTERM')
    let length = 0
    for await (const piece of stream) length += piece.length
    expect(length).toBe(bytes)
  }),
)
