/** Passes requests and connections on to a port on which a program of a sandbox listens. */
import http from 'node:http'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import { type Exchange, refuse } from './http.js'

/** It may listen on either address. */
const HOST = 'localhost'
/** Headers that are about one connection alone. */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
]

export function passRequest({ request, response }: Exchange, port: number, sandboxId: string): void {
  const headers = { ...endToEnd(request.headers), host: hostOf(port) }
  const { method, url: path } = request
  const inner = http.request({ host: HOST, port, method, path, headers, agent: false }, (reply) => {
    reply.on('error', () => response.destroy())
    if (reply.statusCode === 101) return refuseChange()
    try {
      response.writeHead(reply.statusCode ?? 502, endToEnd(reply.headers))
    } catch (error) {
      reply.resume()
      return fail(`The reply from port ${port} cannot be passed on: ${(error as Error).message}`)
    }
    reply.pipe(response)
  })
  let hasFailed = false
  const fail = (message: string) => {
    if (hasFailed) return
    hasFailed = true
    refuse({ request, response }, 502, { sandboxId, message, port, code: 502 })
  }
  inner.on('error', () =>
    fail(`The sandbox is running but nothing listens on port ${port}: the port is not open`),
  )
  // No reply to the request would follow.
  const refuseChange = () => {
    fail(`Port ${port} replied with 101 to a request that is no upgrade`)
    inner.destroy()
  }
  inner.on('upgrade', (_, socket) => {
    socket.destroy()
    refuseChange()
  })
  response.on('close', () => inner.destroy())
  const hasBody = 'content-length' in headers || 'transfer-encoding' in headers
  if (!hasBody) return void inner.end()
  // Here the caller sees what it throws.
  inner.flushHeaders()
  request.pipe(inner)
}

/** WebSockets, and every other protocol that a connection changes to. */
export function passUpgrade(request: http.IncomingMessage, outer: Duplex, head: Buffer, port: number): void {
  const inner = net.connect(port, HOST, () => {
    const lines = [`${request.method} ${request.url} HTTP/1.1`]
    for (let at = 0; at < request.rawHeaders.length; at += 2) {
      const [name = '', value] = request.rawHeaders.slice(at, at + 2)
      lines.push(`${name}: ${name.toLowerCase() === 'host' ? hostOf(port) : value}`)
    }
    inner.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
    inner.write(head)
    inner.pipe(outer).pipe(inner)
  })
  const end = () => {
    inner.destroy()
    outer.destroy()
  }
  for (const one of [inner, outer]) one.on('error', end).on('close', end)
}

function hostOf(port: number): string {
  return `${HOST}:${port}`
}

function endToEnd(headers: http.IncomingHttpHeaders): http.IncomingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name)))
}
