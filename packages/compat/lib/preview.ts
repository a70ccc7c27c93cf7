/** Passes requests and connections on to a port on which a program of a sandbox listens. */
import type http from 'node:http'
import type { Duplex } from 'node:stream'
import { passHttp } from '@nacre/server/internal'
import { isCode } from 'nacre/internal'
import { HttpError } from './failure.js'
import type { Hosted } from './hosted.js'
import { type Exchange, refuse } from './http.js'

export async function previewRequest(exchange: Exchange, hosted: Hosted, port: number): Promise<void> {
  const { request, response } = exchange
  const fail = (message: string) =>
    refuse(exchange, 502, { sandboxId: hosted.record.id, message, port, code: 502 })
  try {
    await passHttp.passRequest(request, response, await onwardTo(hosted, port, request))
  } catch (error) {
    if (isCode(error, 'PORT_CLOSED'))
      fail(`The sandbox is running but nothing listens on port ${port}: the port is not open`)
    else if (error instanceof passHttp.NoReply) fail(`The program on port ${port} ${error.message}`)
    else throw error
  }
}

/** WebSockets, and every other protocol that a connection changes to. Throws HttpError, also for a request with a body. */
export async function previewUpgrade(
  request: http.IncomingMessage,
  socket: Duplex,
  head: Buffer,
  { hosted, port }: { hosted: Hosted; port: number },
): Promise<void> {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = request.headers
  if (Number(length) > 0 || coding !== undefined)
    throw new HttpError(400, 'a request for another protocol has no body here')
  try {
    await passHttp.passUpgrade(request, socket, head, await onwardTo(hosted, port, request))
  } catch (error) {
    if (isCode(error, 'PORT_CLOSED')) throw new HttpError(502, `nothing listens on port ${port}`)
    if (error instanceof passHttp.NoReply)
      throw new HttpError(502, `the program on port ${port} ${error.message}`)
    throw error
  }
}

async function onwardTo(
  hosted: Hosted,
  port: number,
  request: http.IncomingMessage,
): Promise<passHttp.Onward> {
  const { host = '' } = request.headers
  const others = passHttp.endToEnd(request).filter(([name]) => name !== 'host')
  return {
    connection: await hosted.backend.connectPort(undefined, port),
    path: request.url ?? '/',
    headers: [
      ['host', `localhost:${port}`],
      ...others.map(([name, value]): Header => [name, OF_PAGE.has(name) ? inside(value, host, port) : value]),
    ],
    reply: (headers) =>
      headers.map(([name, value]) => [name, OF_REPLY.has(name) ? outside(value, port) : value]),
  }
}

type Header = passHttp.Onward['headers'][number]

/** The page that sends the request, at the address of the preview. */
const OF_PAGE = new Set(['origin', 'referer'])
/** Where the reply is, at the address that the program knows. */
const OF_REPLY = new Set(['location', 'content-location'])

/** A program compares the origin of a page with the name that it is called by. */
function inside(value: string, host: string, port: number): string {
  if (!URL.canParse(value) || new URL(value).host !== host.toLowerCase()) return value
  const { pathname, search } = new URL(value)
  const own = `http://localhost:${port}`
  return pathname === '/' && !value.endsWith('/') ? own : own + pathname + search
}

/** Without the program's own name, which is another machine's for the client. */
function outside(value: string, port: number): string {
  if (!URL.canParse(value)) return value
  const url = new URL(value)
  const isOwn = ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname) && url.port === String(port)
  if (!isOwn || !/^https?:$/.test(url.protocol)) return value
  // A path that begins with two slashes would name a host.
  return `${url.pathname.replace(/^\/+/, '/')}${url.search}${url.hash}`
}
