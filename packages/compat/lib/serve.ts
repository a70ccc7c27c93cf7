/** The server: from the check of the machine until everything has ended. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type FilesystemRules, Sandbox } from 'nacre'
import { engineError, isCode, report, SECRETS } from 'nacre/internal'
import { Api } from './e2b/api.js'
import { USER } from './e2b/entry.js'
import { isEnvdPath, serveEnvd } from './e2b/envd.js'
import { HttpError, httpError } from './failure.js'
import { checkCaller, type Preview, previewOf } from './guard.js'
import type { Hosted, Place } from './hosted.js'
import { refuse } from './http.js'
import { type E2bPlan, planE2b } from './options.js'
import { passRequest, passUpgrade } from './preview.js'
import type { E2bOptions, ServingE2b } from './public.js'
import { Registry } from './registry.js'
import { openRoot, type Root } from './root.js'

const ADDRESS = '127.0.0.1'
/** Clients in Python use connections that were idle for minutes. */
const KEEP_ALIVE_TIMEOUT = 620_000
/** These names stand for envd and the code interpreter. */
const OWN_PORTS = [49_983, 49_999]

/** See public.ts. */
export async function serveE2b(options?: E2bOptions): Promise<ServingE2b> {
  const plan = planE2b(options)
  const root = await openRoot(plan.root)
  const place = await placeOf(root, plan).catch(async (error: unknown) => {
    await root.close()
    throw error
  })
  const registry = new Registry(place, plan.maxSandboxes, plan.logger)
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_TIMEOUT, requestTimeout: 0 })
  const upgraded = new Set<Duplex>()
  let closed: Promise<void> | undefined
  const close = () => {
    closed ??= closeAll(server, upgraded, registry, root)
    return closed
  }
  try {
    await registry.load()
    await checkMachine(registry)
    const port = await listen(server, plan.port)
    server.on('error', (error) =>
      report(plan.logger, 'error', `a connection cannot be accepted: ${error.message}`),
    )
    const api = new Api(registry, root.key, `localhost:${port}`, plan.logger)
    const serving = { registry, api, plan, port, upgraded }
    server.on('request', (request, response) => void serveRequest(serving, request, response))
    server.on('upgrade', (request, socket, head) => serveUpgrade(serving, request, socket, head))
    const url = `http://${ADDRESS}:${port}`
    const env = { E2B_API_KEY: root.key, E2B_API_URL: url, E2B_SANDBOX_URL: url }
    return { url, key: root.key, env, close, [Symbol.asyncDispose]: close }
  } catch (error) {
    await close()
    throw error
  }
}

/** How sandboxes run on this machine. */
async function placeOf(root: Root, { isolation, logger }: E2bPlan): Promise<Place> {
  const isMounted = isolation !== 'none' && (await canMount())
  // Without mounts, hiding the directory would hide the sandbox's own one.
  const hidden = isMounted ? root.directory : root.keyFile
  return {
    sandboxes: root.sandboxes,
    isMounted,
    open({ view, record }: Hosted, rules: FilesystemRules) {
      return new Sandbox({
        cwd: view.home,
        extendEnv: false,
        env: {
          PATH: process.env.PATH,
          LANG: 'C.UTF-8',
          HOME: view.home,
          USER,
          LOGNAME: USER,
          E2B_SANDBOX: 'true',
          E2B_SANDBOX_ID: record.id,
          E2B_TEMPLATE_ID: record.template,
          ...record.env,
        },
        killSignal: 'SIGKILL',
        isolation:
          isolation === 'none'
            ? undefined
            : {
                preset: record.hasNetwork ? isolation : 'workspace',
                filesystem: { ...rules, hide: [...SECRETS, hidden] },
              },
        logger,
      })
    },
  }
}

async function canMount(): Promise<boolean> {
  await using sandbox = new Sandbox()
  return (await sandbox.capabilities()).isolation.filesystem === 'namespace'
}

/** Otherwise every call would fail. */
async function checkMachine(registry: Registry): Promise<void> {
  const probe = {
    template: 'base',
    metadata: {},
    env: {},
    pausesOnTimeout: false,
    hasNetwork: true,
    timeout: 60_000,
  }
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

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => {
      const { code } = cause as NodeJS.ErrnoException
      const message = `port ${port} cannot be used: ${cause.message}; choose another port, or 0 for a free one`
      reject(Object.assign(new Error(message, { cause }), { code, syscall: 'listen' }))
    })
    server.listen(port, ADDRESS, () => resolve((server.address() as AddressInfo).port))
  })
}

interface Serving {
  registry: Registry
  api: Api
  plan: E2bPlan
  /** On which the server listens. */
  port: number
  upgraded: Set<Duplex>
}

async function serveRequest(
  serving: Serving,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { registry, api, plan } = serving
  try {
    const url = urlOf(request)
    const exchange = { request, response, url }
    const preview = previewIn(request)
    checkCaller(request.headers, preview !== undefined)
    if (preview !== undefined) {
      expectOpen(serving, preview)
      passRequest(exchange, preview.port, preview.id)
    } else if (isEnvdPath(url.pathname)) await serveEnvd(registry, exchange)
    else await api.serve(exchange)
  } catch (error) {
    const failure = httpError(error)
    if (failure.status === 500)
      report(plan.logger, 'error', `${request.method} ${request.url}: ${failure.message}`)
    if (!response.destroyed) refuse({ request, response }, failure)
  }
}

function serveUpgrade(serving: Serving, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { upgraded } = serving
  try {
    const preview = previewIn(request)
    checkCaller(request.headers, preview !== undefined)
    if (preview === undefined) throw new HttpError(404, 'only previews have WebSockets')
    const hosted = expectOpen(serving, preview)
    const end = () => socket.destroy()
    upgraded.add(socket)
    hosted.onHalt.add(end)
    socket.on('close', () => {
      upgraded.delete(socket)
      hosted.onHalt.delete(end)
    })
    passUpgrade(request, socket, head, preview.port)
  } catch (error) {
    const { status, message } = httpError(error)
    socket.on('error', () => {})
    socket.end(`HTTP/1.1 ${status} Refused\r\nconnection: close\r\n\r\n${message}\n`)
  }
}

function urlOf({ url = '/' }: IncomingMessage): URL {
  try {
    return new URL(url, 'http://localhost')
  } catch {
    throw new HttpError(400, 'the request target is no URL')
  }
}

function previewIn({ headers }: IncomingMessage): Preview | undefined {
  const preview = previewOf(headers)
  return preview === undefined || OWN_PORTS.includes(preview.port) ? undefined : preview
}

/** Throws HttpError, unless a program of the sandbox can listen on the port. */
function expectOpen({ registry, plan, port: own }: Serving, { id, port }: Preview): Hosted {
  const hosted = registry.get(id)
  if (hosted?.state !== 'running') throw new HttpError(502, `The sandbox ${id} was not found`)
  if (!(port >= 1 && port <= 65_535)) throw new HttpError(400, 'the port of a preview must be 1 to 65535')
  if (port === own) throw new HttpError(502, `port ${port} is that of this server`)
  const { hasNetwork } = hosted.record
  // Otherwise the port would be that of another program of this machine.
  if (plan.isolation !== 'none' && !(plan.isolation === 'workspace+network' && hasNetwork))
    throw new HttpError(502, `The sandbox ${id} has no network, and so no previews`)
  return hosted
}

/** Ends the sandboxes before their connections, so that clients learn why. */
async function closeAll(
  server: Server,
  upgraded: Set<Duplex>,
  registry: Registry,
  root: Root,
): Promise<void> {
  server.close()
  await registry.close()
  for (const socket of upgraded) socket.destroy()
  server.closeAllConnections()
  await root.close()
}
