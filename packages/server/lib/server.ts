/**
 * The server as a function from requests to responses, for any listener: `serve`, Bun.serve, or a test.
 */

import { setMaxListeners } from 'node:events'
import { type Context, Hono, type Next } from 'hono'
import { cors } from 'hono/cors'
import { getPath } from 'hono/utils/url'
import type { Sandbox } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { crypto, signalNumber } from 'nacre/internal'
import { backendOf, type backends, NativeBackend, protocol } from 'nacre/internal/server'
import { accessLog } from './access-log.js'
import { boundBody } from './body-limit.js'
import { Callers } from './callers.js'
import { addPages, type Page, type Recordings } from './console.js'
import type { ServerContext } from './context.js'
import { addExecute } from './contract/execute.js'
import { addPortWatch } from './contract/port-watch.js'
import { addProcesses } from './contract/processes.js'
import { addSessions } from './contract/sessions.js'
import { documentOf, type TaggedRoute } from './document.js'
import { Refusal, ServerEnd, SHUTTING_DOWN } from './failure.js'
import { isUpload } from './file-bodies.js'
import { Forks, isForHost } from './forks/forks.js'
import type { HostLinks } from './forks/host-links.js'
import { Guard, peerOf } from './guard.js'
import { Holds } from './holds.js'
import { Metrics } from './metrics.js'
import { planServer, type ServerPlan } from './plan.js'
import { Ports, targetOf } from './ports/ports.js'
import { Processes } from './processes.js'
import type { CreateServerOptions, Server as PublicServer } from './public.js'
import { Requests } from './requests.js'
import { type Define, definer, errorResponse } from './route.js'
import { Runs } from './runs.js'
import { trackSending, whenSent } from './sent.js'
import { addSystem } from './system.js'
import { Uploads } from './uploads.js'
import { addArchives } from './v1/archives.js'
import { addCallers } from './v1/callers.js'
import { addCheckpoints } from './v1/checkpoints.js'
import { addEvents } from './v1/events.js'
import { addExec } from './v1/exec.js'
import { addFileContent } from './v1/file-content.js'
import { addFiles } from './v1/files.js'
import { addForks } from './v1/forks.js'
import { addJobs } from './v1/jobs.js'
import { addV1Ports } from './v1/ports.js'
import { addProcessIo } from './v1/process-io.js'
import { addProcessWaits } from './v1/process-waits.js'
import { addV1Processes } from './v1/processes.js'
import { addRecordings } from './v1/recordings.js'
import { addV1Sessions } from './v1/sessions.js'
import { addSimpleCalls } from './v1/simple-calls.js'
import { addTerminal } from './v1/terminal.js'
import { addUploads } from './v1/uploads.js'
import { addWorkspace } from './v1/workspace.js'

/** See public.ts. */
export function createServer(sandbox: Sandbox | SandboxClient, options?: CreateServerOptions): PublicServer {
  return buildServer(backendOf(sandbox), planServer(options))
}

/** What the listener of `serve` makes possible. */
interface Extras {
  pages?: readonly Page[]
  recordings?: Recordings | undefined
  /** The sandbox whose ports are forwarded. */
  forwarded?: NativeBackend | undefined
  /** The sandbox whose forks are served. */
  forked?: NativeBackend | undefined
  /** Of a fork: the path below which its routes are, the guard of the server, and links to its ports. */
  below?: { path: string; guard: Guard; links: HostLinks }
}

export function buildServer(
  backend: backends.Backend,
  plan: ServerPlan,
  { pages = [], recordings, forwarded, forked, below }: Extras = {},
): PublicServer {
  const closing = new AbortController()
  // Every request listens to it.
  setMaxListeners(0, closing.signal)
  const metrics = new Metrics(backend)
  const guard =
    below?.guard ?? new Guard(plan, { pages: pages.length > 0, ports: !!forwarded, forks: !!forked })
  const ports = forwarded && new Ports(forwarded, plan.token, closing.signal)
  const forks =
    forked &&
    new Forks(forked, {
      ...{ guard, token: plan.token, closing: closing.signal },
      build: (fork, path, links) => buildServer(fork, plan, { pages, below: { path, guard, links } }),
    })
  const server: ServerContext = {
    backend,
    metrics,
    runs: new Runs(),
    processes: new Processes(backend, metrics),
    callers: new Callers(closing.signal),
    uploads: new Uploads(closing.signal),
    holds: new Holds(),
    links: below?.links ?? ports,
    forks,
    instance: crypto().randomUUID(),
    requests: new Requests(plan.maxRequests),
    logger: plan.logger,
    closing: closing.signal,
    heartbeat: plan.heartbeat,
    sessionTimeouts: new Map(),
  }
  const path = (request: Request) => getPath(request).slice(below?.path.length ?? 0)
  const app = new Hono({ getPath: path })
  const hosts = forks && hostsApp(server, forks)
  const routes: TaggedRoute[] = []
  addPages(app, pages)
  addMiddleware(app, server, plan, guard, ports)
  const add = (tag: string, ...groups: Array<(define: Define, server: ServerContext) => void>) => {
    const define = definer(app, server, (route) => routes.push({ ...route, tag }))
    for (const addTo of groups) addTo(define, server)
  }
  add('container', addSessions, addExecute, addProcesses, addPortWatch)
  add('commands', addExec)
  add('sessions', addV1Sessions)
  add('ports', addV1Ports)
  add('questions', (define) => addSimpleCalls(define, protocol.questionCalls, () => backend))
  add('processes', addV1Processes, addProcessIo, addTerminal, addProcessWaits)
  add('files', addFiles, addFileContent)
  add('workspace', addWorkspace, addCheckpoints)
  if (forks !== undefined) add('forks', addForks)
  const local = backend instanceof NativeBackend ? backend : undefined
  add('archives', (define) => addArchives(define, local))
  add('jobs', addJobs)
  add('server', addSystem, addCallers, addEvents)
  add('files', addUploads)
  if (recordings !== undefined) add('recordings', (define) => addRecordings(define, recordings))
  // Created once: that takes as long as hundreds of requests.
  let made: object | undefined
  const document = () => {
    made ??= documentOf(routes)
    return made
  }
  app.get('/openapi.json', (c) => c.json(document()))
  app.onError((error, c) => errorResponse(server, error, c))
  app.notFound((c) => {
    const refusal = new Refusal(
      'NOT_FOUND',
      'there is no such route; /openapi.json lists those of this server',
    )
    return errorResponse(server, refusal, c)
  })
  return {
    async fetch(request, env) {
      if (hosts !== undefined && isForHost(request, env)) return hosts.fetch(request, env as object)
      const fork = forks?.serverOf(path(request))
      if (fork !== undefined) return fork.fetch(request, env)
      const response = await app.fetch(request, env as object)
      response.headers.set(protocol.INSTANCE_HEADER, server.instance)
      return response
    },
    document,
    async close() {
      closing.abort(new ServerEnd())
      await Promise.all([hangUp(backend), backend.killAllProcesses(), forks?.close()]).catch(() => {})
      await server.requests.idle()
    },
  }
}

/** What the client reads in a page of another origin, which browsers hide by default: parts of files need the last two. */
const EXPOSED = [protocol.INSTANCE_HEADER, 'etag', 'content-range']

/** Probes ask this route. It needs neither a token nor room, since an orchestrator ends a server that it takes for dead. */
const HEALTH = '/healthz'

/** Shells at a terminal ignore SIGTERM, and end when their terminal does. */
async function hangUp(backend: backends.Backend): Promise<void> {
  const running = await backend.listProcesses({ status: new Set(['running', 'starting']) })
  const terminals = running.filter(({ hasTerminal }) => hasTerminal)
  await Promise.all(
    terminals.map((process) =>
      process.kill({ signal: signalNumber('SIGHUP'), forceKillAfterDelay: undefined }),
    ),
  )
}

/** What every request begins with: it is logged, counted, and refused if there are too many. */
function addCounts(app: Hono, server: ServerContext, counts: (c: Context) => boolean): void {
  app.use(trackSending)
  if (server.logger !== undefined) app.use(accessLog(server.logger))
  app.use(async (c: Context, next: Next) => {
    server.metrics.request()
    if (counts(c)) whenSent(c, server.requests.enter())
    await next()
  })
}

/** Answers requests for the hosts of forks, which have none of the routes of the server. */
function hostsApp(server: ServerContext, forks: Forks): Hono {
  const app = new Hono()
  addCounts(app, server, () => true)
  app.use(async (c: Context) => {
    if (server.closing.aborted) throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
    return forks.forward(c)
  })
  app.onError((error, c) => errorResponse(server, error, c))
  return app
}

/** The checks that every request passes before its route. */
function addMiddleware(
  app: Hono,
  server: ServerContext,
  plan: ServerPlan,
  guard: Guard,
  ports: Ports | undefined,
): void {
  addCounts(app, server, (c) => c.req.path !== HEALTH)
  if (ports !== undefined)
    app.use(async (c: Context, next: Next) => {
      const target = targetOf(c)
      if (target === undefined) return next()
      if (server.closing.aborted) throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
      guard.checkPort(c.req.raw.headers, peerOf(c.req.raw, c.env), ports.hasLink(target))
      return ports.forward(c, target)
    })
  // Before cors, which answers the preflights of every page, and leaves it to the browser to refuse.
  app.use(async (c: Context, next: Next) => {
    if (c.req.path !== HEALTH) guard.checkOrigin(c.req.raw.headers)
    await next()
  })
  if (plan.allowedOrigins.length > 0)
    app.use(cors({ origin: plan.allowedOrigins, maxAge: 600, exposeHeaders: EXPOSED }))
  app.use(async (c: Context, next: Next) => {
    if (server.closing.aborted) throw new Refusal('SHUTTING_DOWN', SHUTTING_DOWN)
    if (c.req.path === HEALTH) {
      await next()
      return
    }
    guard.check(c.req.raw.headers, peerOf(c.req.raw, c.env))
    refuseUndecodable(c.req.url)
    const wanted = c.req.header(protocol.INSTANCE_HEADER)
    if (wanted !== undefined && wanted !== server.instance)
      throw new Refusal('INSTANCE_CHANGED', 'the server that the request is for has ended, or is another one')
    if (!isUpload(c.req.method, c.req.path)) await boundBody(c, plan.maxBodyBytes)
    await next()
  })
}

/** Hono would take an encoding that is not UTF-8 as it is written: for the name of another file. */
function refuseUndecodable(url: string): void {
  try {
    decodeURIComponent(url)
  } catch {
    throw new Refusal(
      'VALIDATION_FAILED',
      'the percent-encoding of the URL is malformed, or is not UTF-8: send the name of such a file as pathBase64',
    )
  }
}
