/** A server of one API: from the check of the machine until everything has ended. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import os from 'node:os'
import type { Duplex } from 'node:stream'
import { endAfterReplies, type ListenerEnd, listen, replay, wantsWebSocket } from '@nacre/server/internal'
import { type FilesystemRules, type Logger, Sandbox, type SandboxOptions } from 'nacre'
import { engineError, isCode, kinds, report } from 'nacre/internal'
import { HttpError } from './failure.js'
import { checkCaller, type Preview, previewOf } from './guard.js'
import type { Hosted, Place, SandboxRecord } from './hosted.js'
import { type Exchange, refuse } from './http.js'
import { networkRules } from './network.js'
import type { Plan } from './options.js'
import { previewRequest, previewUpgrade } from './preview.js'
import { Registry, type RegistryOptions } from './registry.js'
import { type ApiName, hiddenPaths, openRoot, type Root } from './root.js'

export const ADDRESS = '127.0.0.1'
/** Clients in Python use connections that were idle for minutes. */
const KEEP_ALIVE_TIMEOUT = 620_000
/** Of requests. Programs of sandboxes may open connections that send none. */
const HEADERS_TIMEOUT = 60_000
const MOST_CONNECTIONS = 8192
/** Milliseconds in which clients have to read the last replies when the server ends. */
const SENDING_TIMEOUT = 10_000

/** What an API decides about all sandboxes of a server. */
export interface Dialect<R extends SandboxRecord>
  extends Pick<RegistryOptions<R>, 'due' | 'isKept'>,
    Pick<Place, 'home' | 'user'> {
  name: ApiName
  /** The variables that its programs have, beside those of the record. */
  environment(record: R): Record<string, string>
  /** A sandbox that is only started for a check. */
  probe(): R
  serve(context: Context<R>): Service
}

export interface Context<R extends SandboxRecord> {
  registry: Registry<R>
  key: string
  /** On which the server listens. */
  port: number
  logger: Logger | undefined
}

/** What serves requests. */
export interface Service {
  request(exchange: Exchange): Promise<void>
  /** Opens a WebSocket. Throws HttpError. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, url: URL): Promise<void>
  failure(error: unknown): HttpError
  /** The body of a reply with an error. */
  describe(error: HttpError, exchange: Pick<Exchange, 'request'>): object
  /** The sandbox of a preview. Undefined if the name belongs to the API itself. */
  previewed(preview: Preview): Hosted | undefined | 'own'
}

/** A server that listens. */
export interface Listening {
  url: string
  key: string
  /** Idempotent. */
  close(): Promise<void>
}

export async function openServer<R extends SandboxRecord>(
  plan: Plan,
  dialect: Dialect<R>,
): Promise<Listening> {
  const { logger } = plan
  const root = await openRoot(dialect.name, plan.root)
  const place = await placeOf(root, plan, dialect).catch(async (error: unknown) => {
    await root.close()
    throw error
  })
  const { due, isKept } = dialect
  const registry = new Registry<R>({ place, maxRunning: plan.maxSandboxes, logger, due, isKept })
  const server = createServer({
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT,
    requestTimeout: 0,
    // Without it, there is no limit either.
    headersTimeout: HEADERS_TIMEOUT,
    // Newer runtimes ask whether to treat an upgrade as wanted.
    ...{ shouldUpgradeCallback: changesProtocol },
  })
  const endListener = endAfterReplies(server)
  server.maxConnections = MOST_CONNECTIONS
  const upgraded = new Set<Duplex>()
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= closeAll({ endListener, upgraded, registry, root })
    return closed
  }
  try {
    await checkMachine(registry, dialect.probe())
    await registry.load()
    const { port } = await listen(server, { host: ADDRESS, port: plan.port }, 'port', logger)
    const service = dialect.serve({ registry, key: root.key, port, logger })
    const running: Running = { service, plan, port, upgraded }
    server.on('request', (request, response) => void serveRequest(running, request, response))
    server.on('upgrade', (request, socket, head) => {
      if (changesProtocol(request)) void serveUpgrade(running, request, socket, head)
      else replay(server, request, socket, head)
    })
    return { url: `http://${ADDRESS}:${port}`, key: root.key, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** How sandboxes run on this machine. */
async function placeOf<R extends SandboxRecord>(
  root: Root,
  { isolation, logger }: Plan,
  { home, user, environment }: Dialect<R>,
): Promise<Place<R>> {
  const isMounted = isolation !== 'none' && (await canMount())
  // Without mounts, nothing can be hidden below the sandbox's own home, which only its programs write.
  const secrets = isMounted
    ? kinds.SECRETS
    : kinds.SECRETS.map((secret) => secret.replace(/^~/, os.homedir()))
  return {
    sandboxes: root.sandboxes,
    records: root.records,
    isMounted,
    home,
    user,
    async open({ view, record }: Hosted<R>, rules: FilesystemRules, archive: string | undefined) {
      const network = networkRules(record.network)
      if (isolation === 'none' && record.network !== 'host')
        throw new HttpError(501, "with isolation 'none', a sandbox cannot be kept from the network")
      const options: SandboxOptions = {
        cwd: view.home,
        extendEnv: false,
        env: {
          PATH: process.env.PATH,
          LANG: 'C.UTF-8',
          HOME: view.home,
          USER: user,
          LOGNAME: user,
          ...environment(record),
          ...record.env,
        },
        killSignal: 'SIGKILL',
        isolation:
          isolation === 'none'
            ? undefined
            : {
                preset: record.network === 'none' ? 'workspace' : isolation,
                ...(network && { network }),
                filesystem: { ...rules, hide: [...secrets, ...(await hiddenPaths(root, isMounted))] },
              },
        logger,
      }
      return archive === undefined ? new Sandbox(options) : (await Sandbox.resume(archive, options)).sandbox
    },
  }
}

async function canMount(): Promise<boolean> {
  await using sandbox = new Sandbox()
  return (await sandbox.capabilities()).isolation.filesystem === 'namespace'
}

/** Otherwise every call would fail. */
async function checkMachine<R extends SandboxRecord>(registry: Registry<R>, probe: R): Promise<void> {
  try {
    await registry.remove(await registry.create(probe))
  } catch (error) {
    if (!isCode(error, 'ISOLATION_UNSUPPORTED')) throw error
    const remedy = "isolation 'none' runs them without it"
    throw engineError(
      'ISOLATION_UNSUPPORTED',
      `sandboxes cannot be isolated here: ${error.shortMessage}; ${remedy}`,
    )
  }
}

interface Running {
  service: Service
  plan: Plan
  port: number
  upgraded: Set<Duplex>
}

async function serveRequest(
  running: Running,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { service, plan } = running
  try {
    const url = urlOf(request)
    const exchange = { request, response, url }
    const preview = previewIn(running, request)
    checkCaller(request.headers, preview !== undefined)
    if (preview === undefined) return await service.request(exchange)
    const hosted = expectOpen(running, preview)
    hosted.connect(response)
    await previewRequest(exchange, hosted, preview.port)
  } catch (error) {
    const failure = service.failure(error)
    if (failure.status === 500)
      report(plan.logger, 'error', `${request.method} ${request.url}: ${failure.message}`)
    if (!response.destroyed)
      refuse({ request, response }, failure.status, service.describe(failure, { request }))
  }
}

async function serveUpgrade(
  running: Running,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const { upgraded, service } = running
  socket.on('error', () => {})
  upgraded.add(socket)
  socket.on('close', () => upgraded.delete(socket))
  try {
    const preview = previewIn(running, request)
    checkCaller(request.headers, preview !== undefined)
    if (preview === undefined) return await service.upgrade(request, socket, head, urlOf(request))
    const hosted = expectOpen(running, preview)
    hosted.connect(socket)
    await previewUpgrade(request, socket, head, { hosted, port: preview.port })
  } catch (error) {
    const failure = service.failure(error)
    const text = JSON.stringify(service.describe(failure, { request }))
    const type = 'content-type: application/json'
    // A client that leaves its half of the connection open would otherwise keep it.
    socket.once('finish', () => socket.destroy())
    socket.end(`HTTP/1.1 ${failure.status} Refused\r\n${type}\r\nconnection: close\r\n\r\n${text}\n`)
  }
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  try {
    return new URL(url, 'http://localhost')
  } catch {
    throw new HttpError(400, 'the request target is no URL')
  }
}

function previewIn({ service }: Running, { headers }: IncomingMessage): Preview | undefined {
  const preview = previewOf(headers)
  return preview === undefined || service.previewed(preview) === 'own' ? undefined : preview
}

/** Throws HttpError, unless programs of the sandbox can run, and listen on the port. */
function expectOpen({ service }: Running, preview: Preview): Hosted {
  const { id, port } = preview
  const hosted = service.previewed(preview)
  if (hosted === undefined || hosted === 'own' || hosted.state !== 'running')
    throw new HttpError(502, `The sandbox ${id} was not found`)
  if (!(port >= 1 && port <= 65_535)) throw new HttpError(400, 'the port of a preview must be 1 to 65535')
  return hosted
}

/** Programs of previews may know any protocol, but HTTP/2 is only offered, by clients that know HTTP/1.1 as well. */
function changesProtocol(request: IncomingMessage): boolean {
  const { 'content-length': length = '0', 'transfer-encoding': coding, upgrade } = request.headers
  const hasBody = Number(length) > 0 || coding !== undefined
  return (
    wantsWebSocket(request) ||
    (previewOf(request.headers) !== undefined && !hasBody && !/(^|,)\s*h2c\s*(,|$)/i.test(upgrade ?? ''))
  )
}

interface Open<R extends SandboxRecord> {
  endListener: (milliseconds: number) => Promise<ListenerEnd>
  upgraded: Set<Duplex>
  registry: Registry<R>
  root: Root
}

/** Ends the sandboxes before their connections, so that clients learn why. Whole replies are sent first. */
async function closeAll<R extends SandboxRecord>({
  endListener,
  upgraded,
  registry,
  root,
}: Open<R>): Promise<void> {
  await registry.close()
  for (const socket of upgraded) socket.destroy()
  await endListener(SENDING_TIMEOUT)
  await root.close()
}
