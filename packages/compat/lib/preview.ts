/** Passes requests and connections on to a port on which a program of a sandbox listens. */
import http from 'node:http'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import type { Exchange } from './http.js'
import { sendJson } from './http.js'

/** It may listen on either address. */
const HOST = 'localhost'

export function passRequest({ request, response }: Exchange, port: number, sandboxId: string): void {
  const headers = { ...request.headers, host: `${HOST}:${port}` }
  const { method, url: path } = request
  const inner = http.request({ host: HOST, port, method, path, headers, agent: false }, (reply) => {
    response.writeHead(reply.statusCode ?? 502, reply.headers)
    reply.on('error', () => response.destroy())
    reply.pipe(response)
  })
  inner.on('error', () => {
    if (response.headersSent) return void response.destroy()
    request.resume()
    const message = `The sandbox is running but nothing listens on port ${port}: the port is not open`
    sendJson(response, 502, { sandboxId, message, port, code: 502 })
  })
  response.on('close', () => inner.destroy())
  request.pipe(inner)
}

/** WebSockets, and every other protocol that a connection changes to. */
export function passUpgrade(request: http.IncomingMessage, outer: Duplex, head: Buffer, port: number): void {
  const inner = net.connect(port, HOST, () => {
    const lines = [`${request.method} ${request.url} HTTP/1.1`]
    for (let at = 0; at < request.rawHeaders.length; at += 2)
      lines.push(`${request.rawHeaders[at]}: ${request.rawHeaders[at + 1]}`)
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
