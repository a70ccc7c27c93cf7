/**
 * The listener of the REST API.
 *
 * node:http is used directly: a `Request` has a URL in which `..` and `%2e%2e` are resolved already.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Guard, headerFields, isLoopback, isLoopbackName, listen, Requests } from '@nacre/server/internal'
import type { Logger } from 'nacre'
import { clock, report } from 'nacre/internal'
import { sendBytes } from './rest-bytes.js'
import { failureOf } from './rest-error.js'
import type { Reply } from './rest-files.js'
import { answer, type Routes } from './rest-routes.js'
import { targetOf } from './target.js'

/** The longest interval between checks of the connections' time limits, in ms. */
const MOST_CHECK_INTERVAL_MS = 1000

export interface RestPlan {
  host: string
  port: number
  headersTimeout: number
  keepAliveTimeout: number
  maxHeaderBytes: number
  maxConnections: number
  logger: Logger | undefined
}

export interface RestListener {
  port: number
  /** Resolves when no request is being answered. */
  idle(): Promise<void>
  /** Takes no more connections, and resolves when all connections are closed. */
  finish(): Promise<void>
  /** Cuts all connections. */
  cut(): void
}

/** Listens. Rejects with the error of the system. */
export async function listenRest(routes: Routes, plan: RestPlan): Promise<RestListener> {
  const { headersTimeout, keepAliveTimeout } = plan
  const requests = new Requests(Number.POSITIVE_INFINITY)
  const isName = isLoopback(plan.host) ? isLoopbackName : () => true
  const guard = new Guard({ isName, logger: plan.logger })
  const server = createServer(
    {
      maxHeaderSize: plan.maxHeaderBytes,
      headersTimeout,
      keepAliveTimeout,
      // Uploads have no time limit.
      requestTimeout: 0,
      connectionsCheckingInterval: Math.min(MOST_CHECK_INTERVAL_MS, headersTimeout),
    },
    (incoming, outgoing) => {
      const leave = requests.enter()
      void handle(routes, guard, plan, incoming, outgoing).finally(leave)
    },
  )
  server.maxConnections = plan.maxConnections
  const { port } = await listen(server, plan, 'sandboxd.restPort', plan.logger)
  return {
    port,
    idle: () => requests.idle(),
    finish() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeIdleConnections()
      return closed
    },
    cut: () => server.closeAllConnections(),
  }
}

async function handle(
  routes: Routes,
  guard: Guard,
  plan: RestPlan,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const begun = clock.performance.now()
  const gone = new AbortController()
  // A client that disconnects ends its own request only.
  for (const side of [incoming, outgoing]) side.on('error', () => {})
  outgoing.once('close', () => gone.abort(new Error('the client has disconnected')))
  try {
    // Pages are refused: there is no other way to tell whether their users want these requests.
    const headers = headerFields(incoming.headers)
    guard.checkOrigin(headers)
    guard.checkName(headers)
    await send(incoming, outgoing, await answer(routes, incoming, gone.signal))
  } catch (error) {
    fail(outgoing, error, plan)
  }
  const { route } = targetOf(incoming.url ?? '/')
  const milliseconds = Math.round(clock.performance.now() - begun)
  report(
    plan.logger,
    'info',
    `${incoming.method} ${route.slice(0, 300)} ${outgoing.statusCode} ${milliseconds} ms`,
  )
}

async function send(incoming: IncomingMessage, outgoing: ServerResponse, reply: Reply): Promise<void> {
  if (reply === 'nothing') {
    outgoing.writeHead(204).end()
  } else if ('json' in reply) {
    json(outgoing, 200, incoming.method === 'HEAD' ? undefined : reply.json)
  } else {
    await sendBytes(outgoing, reply.bytes, incoming.method === 'HEAD')
  }
}

function fail(outgoing: ServerResponse, error: unknown, { logger }: RestPlan): void {
  const { status, body, headers } = failureOf(error)
  if (status === 500) report(logger, 'error', `sandboxd: ${error}`)
  // What has begun must not look complete.
  if (outgoing.headersSent) return void outgoing.destroy()
  for (const [name, value] of Object.entries(headers)) outgoing.setHeader(name, value)
  json(outgoing, status, body)
}

function json(outgoing: ServerResponse, status: number, body: unknown): void {
  outgoing.writeHead(status, { 'content-type': 'application/json', 'x-content-type-options': 'nosniff' })
  outgoing.end(body === undefined ? undefined : JSON.stringify(body))
}
