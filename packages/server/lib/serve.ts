/**
 * Listens for requests, on Node and on Bun, and shuts down in order.
 *
 * Both listen by node:http: it is the listener that bounds the time in which a request has to arrive, so that a client
 * which sends a byte now and then is turned away. Bun.serve has no such bound.
 */

import { createServer as createHttpServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import type { Sandbox } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { clock, kinds, OptionError, smallText } from 'nacre/internal'
import { backendOf, NativeBackend } from 'nacre/internal/server'
import { loadConsole } from './console.js'
import { boundArrival } from './file-bodies.js'
import { isLoopback } from './guard.js'
import { listen } from './listen.js'
import { endAfterReplies, type ListenerEnd, wantsWebSocket } from './listener.js'
import { planServe, type ServePlan } from './plan.js'
import type { ServeOptions, Server, Serving, ServingSandboxd } from './public.js'
import { openSandboxd, type Sandboxd } from './sandboxd.js'
import { buildServer } from './server.js'
import { openWebSockets } from './upgrade.js'
import { within } from './within.js'

/** The interval between checks of the connections' time limits, in ms. */
const MOST_CHECK_INTERVAL_MS = 1000

/** See public.ts. */
export async function serve(sandbox: Sandbox | SandboxClient, options?: ServeOptions): Promise<Serving> {
  const backend = backendOf(sandbox)
  const plan = withToken(planServe(options))
  if (plan.server.token === undefined && !isLoopback(plan.host)) {
    throw new OptionError(
      'INVALID_OPTION',
      `host ${plan.host} can be reached from other machines: give token or tokenFile, or use 127.0.0.1`,
    )
  }
  const local = backend instanceof NativeBackend ? backend : undefined
  const needsLocal = (['forwardPorts', 'forks'] as const).find((name) => plan[name])
  if (needsLocal !== undefined && local === undefined)
    throw new OptionError('INVALID_OPTION', `${needsLocal} needs a Sandbox of this process, not a client`)
  const extras = await loadConsole(plan)
  const sandboxd = plan.sandboxd && (await openSandboxd(backend, plan.sandboxd))
  const server = buildServer(backend, plan.server, {
    ...extras,
    forwarded: plan.forwardPorts ? local : undefined,
    forked: plan.forks ? local : undefined,
  })
  const listener = await openListener(server, plan).catch((error) => {
    sandboxd?.abandon()
    throw error
  })
  const endListener = endAfterReplies(listener)
  const cutWebSockets = openWebSockets(listener, server.fetch)
  const { address, port } = listener.address() as AddressInfo
  let closed: Promise<boolean> | undefined
  const close = () => {
    closed ??= closeAll({ server, endListener, cutWebSockets, sandboxd }, plan)
    return closed
  }
  const host = address.includes(':') ? `[${address}]` : address
  return {
    host: address,
    port,
    url: `http://${host}:${port}`,
    sandboxd: sandboxd && shownOf(sandboxd),
    close,
    async [Symbol.asyncDispose]() {
      await close()
    },
  }
}

function withToken(plan: ServePlan): ServePlan {
  if (plan.tokenFile === undefined) return plan
  const content = smallText(plan.tokenFile, `tokenFile ${plan.tokenFile}`).trim()
  return {
    ...plan,
    server: {
      ...plan.server,
      token: kinds.readArgument(kinds.serverToken.read, content, 'the content of tokenFile'),
    },
  }
}

async function openListener(server: Server, plan: ServePlan): Promise<HttpServer> {
  const { headersTimeout, requestTimeout, keepAliveTimeout, maxHeaderBytes } = plan
  const listener = createAdaptorServer({
    fetch: server.fetch,
    createServer: createHttpServer,
    overrideGlobalObjects: false,
    // Of a request without a Host, as health checks send in HTTP/1.0.
    hostname: 'localhost',
    serverOptions: {
      maxHeaderSize: maxHeaderBytes,
      headersTimeout,
      // Uploads have no time limit; boundArrival ends all other late requests.
      requestTimeout: 0,
      keepAliveTimeout,
      connectionsCheckingInterval: Math.min(MOST_CHECK_INTERVAL_MS, headersTimeout),
      // Newer runtimes ask whether to treat an upgrade as wanted.
      ...{ shouldUpgradeCallback: wantsWebSocket },
    },
  }) as HttpServer
  listener.maxConnections = plan.maxConnections
  // By default, all but the first thousand are missing, and who sends a request would be too. maxHeaderSize bounds them.
  listener.maxHeadersCount = 0
  listener.prependListener('request', (incoming, outgoing) => {
    boundArrival(incoming, outgoing, Math.max(requestTimeout, headersTimeout))
  })
  await listen(listener, plan, 'port', plan.server.logger)
  return listener
}

/** What listens. */
interface Open {
  server: Server
  endListener: (milliseconds: number) => Promise<ListenerEnd>
  cutWebSockets: () => void
  sandboxd: Sandboxd | undefined
}

function shownOf({ host, grpcPort, restPort, root }: Sandboxd): ServingSandboxd {
  return { host, grpcPort, restPort, root }
}

/**
 * Refuses new requests, ends running ones, and then cuts the remaining connections. Resolves when all are closed: true when
 * nothing had to be cut.
 */
async function closeAll(
  { server, endListener, cutWebSockets, sandboxd }: Open,
  { shutdownTimeout }: ServePlan,
): Promise<boolean> {
  sandboxd?.drain()
  const deadline = clock.performance.now() + shutdownTimeout
  const isOver = await within(shutdownTimeout, Promise.all([server.close(), sandboxd?.idle()]))
  // The last replies and messages of gRPC are still on their way.
  const finished = sandboxd?.finish() ?? Promise.resolve()
  const left = Math.max(1000, deadline - clock.performance.now())
  const [{ isSent, closed }, isFinished] = await Promise.all([endListener(left), within(left, finished)])
  cutWebSockets()
  sandboxd?.cut()
  await within(1000, Promise.all([closed, finished]))
  return isOver && isSent && isFinished
}
