/** A small API server of Kubernetes for custom resources: create, get, list, watch, merge patch and delete. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { KubeConfig } from '@kubernetes/client-node'
import { type KubeObject, StatusError, Store, type StoreEvent } from './store.js'

/** A fault instead of the response: a status, or a connection that breaks before or after the work. */
export type Fault = number | 'break' | 'lose-reply' | undefined

interface Watcher {
  prefix: string
  selector: Array<[string, string]>
  response: ServerResponse
}

export class ApiServer {
  readonly store = new Store()
  /** Decides the fault of each request, except watches. */
  fault: (method: string, path: string) => Fault = () => undefined
  /** The status that watches are refused with. */
  watchFault: number | undefined
  /** Watches stay open and report nothing. */
  isSilent = false
  /** The number of requests by kind, and of events sent to watches. */
  readonly counts: Record<string, number> = {}
  readonly #watchers = new Set<Watcher>()
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined
  #port = 0

  constructor() {
    this.store.listen((event) => {
      for (const watcher of this.#watchers) this.#send(watcher, event)
    })
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => void this.#answer(request, response))
    server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.on('error', reject)
      server.listen(this.#port, '127.0.0.1', () => resolve())
    })
    this.#port = (server.address() as AddressInfo).port
  }

  /** Breaks all connections and refuses new ones. The objects remain. */
  async stop(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    this.#watchers.clear()
    const closed = new Promise<void>((resolve) => server?.close(() => resolve()) ?? resolve())
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** Breaks the connections of all watches. */
  dropWatches(): void {
    for (const { response } of this.#watchers) response.socket?.destroy()
    this.#watchers.clear()
  }

  /** Sends a line to all watches. */
  sendLine(line: string): void {
    for (const { response } of this.#watchers) response.write(`${line}\n`)
  }

  get watches(): number {
    return this.#watchers.size
  }

  kubeConfig(): KubeConfig {
    const config = new KubeConfig()
    config.loadFromClusterAndUser(
      { name: 'test', server: `http://127.0.0.1:${this.#port}`, skipTLSVerify: true },
      { name: 'test', token: 'a-token-of-the-test' },
    )
    return config
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const method = request.method ?? 'GET'
    let fault: Fault
    try {
      const body = await bodyOf(request)
      const [, resource = '', name] =
        /^\/apis\/[^/]+\/v1beta1\/namespaces\/([^/]+\/[^/]+)(?:\/([^/]+))?$/.exec(url.pathname) ?? []
      const [namespace, plural] = resource.split('/')
      const prefix = `${plural}/${namespace}/`
      if (resource === '') throw new StatusError(404, 'NotFound', `${url.pathname} not found`)
      if (url.searchParams.get('watch') === 'true') {
        this.#count('WATCH')
        if (this.watchFault !== undefined)
          throw new StatusError(this.watchFault, 'Fault', 'user "test" cannot watch sandboxclaims')
        this.#watch(prefix, url, response)
        return
      }
      this.#count(method === 'GET' && name === undefined ? 'LIST' : method)
      fault = this.fault(method, url.pathname)
      if (fault === 'break') {
        request.socket.destroy()
        return
      }
      if (typeof fault === 'number') throw new StatusError(fault, 'Fault', 'a fault of the test')
      const [status, reply] = this.#perform(method, prefix, name, body, url)
      if (fault === 'lose-reply') request.socket.destroy()
      else send(response, status, reply)
    } catch (error) {
      const { code = 500, reason = 'InternalError', message } = error as Partial<StatusError>
      if (fault === 'lose-reply') request.socket.destroy()
      else send(response, code, { kind: 'Status', status: 'Failure', code, reason, message })
    }
  }

  #perform(
    method: string,
    prefix: string,
    name: string | undefined,
    body: KubeObject,
    url: URL,
  ): [number, KubeObject] {
    const { store } = this
    if (method === 'POST') return [201, store.create(prefix + body.metadata.name, body)]
    if (name === undefined) {
      const selector = selectorOf(url)
      const items = store.list(prefix).filter((object) => matches(object, selector))
      return [200, { kind: 'List', metadata: { resourceVersion: String(store.version) }, items }]
    }
    if (method === 'PATCH') return [200, store.patch(prefix + name, body)]
    if (method === 'DELETE') return [200, store.delete(prefix + name, body?.preconditions?.uid)]
    return [200, store.get(prefix + name)]
  }

  #watch(prefix: string, url: URL, response: ServerResponse): void {
    const events = this.store.since(Number(url.searchParams.get('resourceVersion') ?? 0))
    response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
    const watcher = { prefix, selector: selectorOf(url), response }
    for (const event of events) this.#send(watcher, event)
    this.#watchers.add(watcher)
    response.on('close', () => this.#watchers.delete(watcher))
  }

  #send({ prefix, selector, response }: Watcher, { key, type, object }: StoreEvent): void {
    if (this.isSilent || !key.startsWith(prefix) || !matches(object, selector)) return
    this.#count('EVENT')
    response.write(`${JSON.stringify({ type, object })}\n`)
  }

  #count(kind: string): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1
  }
}

function selectorOf(url: URL): Array<[string, string]> {
  const text = url.searchParams.get('labelSelector') ?? ''
  return text === '' ? [] : text.split(',').map((part) => part.split('=') as [string, string])
}

function matches(object: KubeObject, selector: Array<[string, string]>): boolean {
  return selector.every(([name, value]) => object.metadata.labels?.[name] === value)
}

async function bodyOf(request: IncomingMessage): Promise<KubeObject> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text === '' ? undefined : JSON.parse(text)
}

function send(response: ServerResponse, status: number, body: KubeObject): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}
