/** Passes requests and connections on to a port on which a program of a sandbox listens. */
import type http from 'node:http'
import type { Duplex } from 'node:stream'
import { isCode } from 'nacre/internal'
import { endToEnd, NoReply, type Onward, passRequest, passUpgrade } from 'nacre/internal/server'
import { HttpError } from './failure.js'
import type { Hosted } from './hosted.js'
import { type Exchange, refuse } from './http.js'

export async function previewRequest(exchange: Exchange, hosted: Hosted, port: number): Promise<void> {
  const { request, response } = exchange
  const fail = (message: string) =>
    refuse(exchange, 502, { sandboxId: hosted.record.id, message, port, code: 502 })
  try {
    await passRequest(request, response, await onwardTo(hosted, port, request))
  } catch (error) {
    if (isCode(error, 'PORT_CLOSED'))
      fail(`The sandbox is running but nothing listens on port ${port}: the port is not open`)
    else if (error instanceof NoReply) fail(`The program on port ${port} ${error.message}`)
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
    await passUpgrade(request, socket, head, await onwardTo(hosted, port, request))
  } catch (error) {
    if (isCode(error, 'PORT_CLOSED')) throw new HttpError(502, `nothing listens on port ${port}`)
    if (error instanceof NoReply) throw new HttpError(502, `the program on port ${port} ${error.message}`)
    throw error
  }
}

async function onwardTo(hosted: Hosted, port: number, request: http.IncomingMessage): Promise<Onward> {
  const others = endToEnd(request).filter(([name]) => name !== 'host')
  return {
    connection: await hosted.backend.connectPort(undefined, port),
    path: request.url ?? '/',
    headers: [['host', `localhost:${port}`], ...others],
    reply: (headers) => headers,
  }
}
