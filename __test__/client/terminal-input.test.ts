/** Input of a terminal whose WebSocket closes between two writes. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import type { Socket } from '../../lib/backends/http/socket.js'
import { TerminalInput } from '../../lib/backends/http/terminal-input.js'
import { rejectionOf } from '../helpers/thrown.js'

/** Runs a test with a server that gives each message the same answer, and the WebSockets that the input has opened. */
async function withInput(
  test: (place: { input: TerminalInput; opened: WebSocket[]; received: string[] }) => Promise<void>,
  answer = JSON.stringify({ written: 1 }),
): Promise<void> {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const received: string[] = []
  server.on('connection', (socket) => {
    socket.on('message', (data) => {
      received.push(String(data))
      socket.send(answer)
    })
  })
  const opened: WebSocket[] = []
  const input = new TerminalInput(async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
    opened.push(socket)
    return socket as unknown as Socket
  })
  try {
    await test({ input, opened, received })
  } finally {
    for (const socket of opened) socket.terminate()
    await new Promise((resolve) => server.close(resolve))
  }
}

it('is sent on another WebSocket when the one before is closing', () =>
  withInput(async ({ input, opened, received }) => {
    expect(await input.write(Buffer.from('a'))).toBe(true)
    const [first] = opened as [WebSocket]
    const closed = once(first, 'close')
    first.close()
    expect(first.readyState).toBe(WebSocket.CLOSING)
    expect(await input.write(Buffer.from('b'))).toBe(true)
    // The end of the first one does not end the second.
    await closed
    expect(await input.write(Buffer.from('c'))).toBe(true)
    expect([received, opened.length]).toEqual([['a', 'b', 'c'], 2])
  }))

it('rejects when a WebSocket refuses it, and the next write gets its own answer', () =>
  withInput(async ({ input, opened, received }) => {
    await input.write(Buffer.from('a'))
    const [socket] = opened as [WebSocket]
    const { send } = socket
    socket.send = () => {
      socket.send = send
      throw new Error('refused')
    }
    await expect(input.write(Buffer.from('b'))).rejects.toThrow('refused')
    expect(await input.write(Buffer.from('c'))).toBe(true)
    expect(received).toEqual(['a', 'c'])
  }))

it('rejects when the answer of a write is no JSON', () =>
  withInput(async ({ input }) => {
    expect(await rejectionOf(input.write(Buffer.from('a')))).toMatchObject({ code: 'CONNECTION_FAILED' })
  }, 'x"written":1}'))
