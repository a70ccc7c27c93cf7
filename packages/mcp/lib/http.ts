/** The server over Streamable HTTP, in both eras of the protocol. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { toNodeHandler, toWebRequest } from '@modelcontextprotocol/node'
import { createMcpHandler, isLegacyRequest } from '@modelcontextprotocol/server'
import { endAfterReplies } from '@nacre/server/internal'
import type { Tools } from '@nacre/tools'
import { stderrLogger } from 'nacre/internal/cli'
import { Guard, refuse } from './guard.js'
import { IdleLimit } from './idle.js'
import { LegacyConnections } from './legacy.js'
import { createFactory } from './server.js'
import type { HttpSettings } from './settings.js'

const PATH = '/mcp'
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
  const onerror = (error: Error) => stderrLogger.warn(error.message)
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
  const guard = new Guard(settings)

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const refusal = guard.refusal(request)
    const { origin } = request.headers
    if (origin !== undefined && refusal?.status !== 403) {
      response.setHeader('access-control-allow-origin', origin)
      response.setHeader('vary', 'origin')
      for (const [name, value] of Object.entries(CORS)) response.setHeader(name, value)
    }
    if (refusal !== undefined) return refuse(response, refusal)
    if (request.method === 'OPTIONS') return void response.writeHead(204).end()
    const [path] = (request.url ?? '').split('?')
    if (path !== PATH) return refuse(response, { status: 404, message: `there is only ${PATH}` })
    let body: unknown
    let web: Request
    try {
      web = await toWebRequest(request)
      if (request.method === 'POST') body = await web.clone().json()
    } catch (error) {
      const isLarge = (error as { status?: number }).status === 413
      return refuse(
        response,
        isLarge
          ? { status: 413, message: 'the body is too large' }
          : { status: 400, message: 'the body must be JSON' },
      )
    }
    // Clients of 2025 cancel by another request, which must reach the same server object.
    if (await isLegacyRequest(web, body)) await legacy.serve(request, response, body)
    else await serveModern(request, response, body)
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error: Error) => {
      onerror(error)
      if (!response.headersSent) refuse(response, { status: 500, message: 'the server failed' })
      else response.destroy()
    })
  })
  const end = endAfterReplies(server)
  await listen(server, settings)
  return async () => {
    await modern.close()
    await legacy.close()
    await end(SENDING_TIMEOUT)
  }
}

async function listen(server: ReturnType<typeof createServer>, settings: HttpSettings): Promise<void> {
  const { host, port, token, isNewToken } = settings
  server.listen(port, host)
  try {
    await once(server, 'listening')
  } catch (cause) {
    const { message } = cause as Error
    throw new Error(
      `--port ${port} cannot be used on --host ${host}: ${message}; choose another port, or 0 for a free one, or another host`,
      { cause },
    )
  }
  const { address, family, port: actual } = server.address() as AddressInfo
  const shown = family === 'IPv6' ? `[${address}]` : address
  console.error(`nacre-mcp listens on http://${shown}:${actual}${PATH}`)
  if (isNewToken) console.error(`token: ${token}`)
}
