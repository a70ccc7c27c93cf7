/** The server over Streamable HTTP, in both eras of the protocol. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { toNodeHandler, toWebRequest } from '@modelcontextprotocol/node'
import { createMcpHandler, isLegacyRequest } from '@modelcontextprotocol/server'
import { collect, endAfterReplies, headerFields, listen, Refusal } from '@nacre/server/internal'
import type { Tools } from '@nacre/tools'
import { printing } from 'nacre/internal/cli'
import { guardOf, refuse } from './guard.js'
import { IdleLimit } from './idle.js'
import { LegacyConnections } from './legacy.js'
import { createFactory } from './server.js'
import type { HttpSettings } from './settings.js'

const PATH = '/mcp'
const MOST_BODY_BYTES = 4 * 1024 * 1024
/** Milliseconds in which clients have to read the last replies when the server ends. */
const SENDING_TIMEOUT = 5000

/** What pages of an allowed origin may send and read: the headers of the protocol. */
const CORS = {
  'access-control-allow-methods': 'GET, POST, DELETE',
  'access-control-allow-headers':
    'authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id',
  'access-control-expose-headers': 'mcp-session-id, mcp-protocol-version',
  'access-control-max-age': '600',
}

/** Listens. Resolves with what closes the server. */
export async function serveHttp(
  tools: Tools,
  instructions: string[],
  settings: HttpSettings,
): Promise<() => Promise<void>> {
  const onerror = (error: Error) => printing.stderrLogger.warn(error.message)
  const sessions = new IdleLimit(settings.idle)
  const create = createFactory(tools, instructions, (name, { session, end }, opened) => {
    if (opened !== undefined)
      sessions.add(opened, () => tools.call('sessions', { end: opened }).catch(onerror))
    if (typeof session === 'string') sessions.use(session)
    if (name === 'sessions' && typeof end === 'string') sessions.remove(end)
  })
  const modern = createMcpHandler(create, { legacy: 'reject', onerror })
  const serveModern = toNodeHandler(modern, { onerror })
  const legacy = new LegacyConnections(create, settings.idle)
  const guard = guardOf(settings)

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const headers = headerFields(request.headers)
    const { origin } = request.headers
    guard.checkOrigin(headers)
    guard.checkName(headers)
    if (origin !== undefined) {
      response.setHeader('access-control-allow-origin', origin)
      response.setHeader('vary', 'origin')
      for (const [name, value] of Object.entries(CORS)) response.setHeader(name, value)
    }
    // A browser asks first, without the token, whether a page may send it.
    if (request.method === 'OPTIONS' && origin !== undefined) return void response.writeHead(204).end()
    guard.check(headers, request.socket.remoteAddress)
    const [path] = (request.url ?? '').split('?')
    if (path !== PATH) return refuse(response, { status: 404, message: `there is only ${PATH}` })
    const text = await textOf(request)
    const body = request.method === 'POST' ? parsed(text) : undefined
    // Clients of 2025 cancel by another request, which must reach the same server object.
    if (await isLegacyRequest(await toWebRequest(request, body), body))
      await legacy.serve(request, response, body)
    else await serveModern(request, response, body)
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error: Error) => {
      if (error instanceof Refusal) return refuse(response, error)
      onerror(error)
      if (!response.headersSent) refuse(response, { status: 500, message: 'the server failed' })
      else response.destroy()
    })
  })
  const end = endAfterReplies(server)
  const { host, port, token, isNewToken } = settings
  const {
    address,
    family,
    port: actual,
  } = await listen(server, { host, port }, '--port', printing.stderrLogger)
  const shown = family === 'IPv6' ? `[${address}]` : address
  console.error(`nacre-mcp listens on http://${shown}:${actual}${PATH}`)
  if (isNewToken) console.error(`token: ${token}`)
  return async () => {
    await modern.close()
    await legacy.close()
    await end(SENDING_TIMEOUT)
  }
}

/** The body. It is read without breaking the connection, so that a client which still sends gets a reply. */
async function textOf(request: IncomingMessage): Promise<string> {
  const tooLarge = () => new Refusal('PAYLOAD_TOO_LARGE', `a body has at most ${MOST_BODY_BYTES} bytes`)
  if (Number(request.headers['content-length'] ?? 0) > MOST_BODY_BYTES) throw tooLarge()
  return (await collect(request.iterator({ destroyOnReturn: false }), MOST_BODY_BYTES, tooLarge)).toString()
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refusal('VALIDATION_FAILED', 'the body must be JSON')
  }
}
