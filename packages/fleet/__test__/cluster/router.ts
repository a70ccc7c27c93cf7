/**
 * A router that behaves like agent-sandbox's: it finds the pod by headers, does not forward `Authorization`, cuts requests
 * that take too long, and retries connections. Upgrades have no time limit, and lose their `Origin`.
 */
import {
  Agent,
  type ClientRequest,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
  request,
  type ServerResponse,
} from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Pod } from './pods.js'

const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const ATTEMPTS = 3

export interface RouterOptions {
  find: (namespace: string, sandbox: string) => Pod | undefined
  /** Milliseconds after which a request that is not an upgrade is cut. */
  limit: number
  /** Time limit for a pod to accept a connection, in milliseconds. */
  dialTimeout: number
}

export interface Router {
  url: string
  /** The number of requests that reached a pod. */
  opened(): number
  /** The number of requests that were cut. */
  cuts(): number
  /** Cuts each response after this number of bytes. */
  cutAfter(bytes: number): void
  /** The headers of the last request, as the pod receives them. */
  lastHeaders(): IncomingHttpHeaders
  /** Breaks all connections. */
  break(): void
  close(): Promise<void>
}

export async function startRouter({ find, limit, dialTimeout }: RouterOptions): Promise<Router> {
  const sockets = new Set<Duplex>()
  let opened = 0
  let cut = 0
  let mostBytes = Number.POSITIVE_INFINITY
  let last: IncomingHttpHeaders = {}
  const track = <T extends Duplex>(socket: T): T => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    return socket
  }

  // Shorter than the time that a pod keeps an idle connection.
  const agent = new Agent({ keepAlive: true, timeout: 4000 })

  const proxy = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const target = targetOf(incoming.headers, find)
    if ('detail' in target) return refuse(outgoing, 400, target.detail)
    last = forwarded(incoming)
    const upstream = await open(target, { method: incoming.method, path: incoming.url, headers: last, agent })
    if (upstream === undefined)
      return refuse(outgoing, 502, `Could not connect to the backend sandbox: ${target.id}`)
    opened++
    const timer = setTimeout(() => {
      cut++
      upstream.destroy()
      if (outgoing.headersSent) outgoing.destroy()
      else refuse(outgoing, 504, 'The sandbox has not answered in time')
    }, limit)
    upstream.on('response', (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      let length = 0
      response.on('data', ({ length: more }: Buffer) => {
        length += more
        if (length <= mostBytes) return
        cut++
        upstream.destroy()
        outgoing.destroy()
      })
      response.pipe(outgoing)
      response.on('error', () => outgoing.destroy())
      response.on('aborted', () => outgoing.destroy())
    })
    upstream.on('error', () => {
      if (outgoing.headersSent) outgoing.destroy()
      else refuse(outgoing, 502, `The connection to the backend sandbox broke: ${target.id}`)
    })
    outgoing.on('close', () => {
      clearTimeout(timer)
      if (!outgoing.writableFinished) upstream.destroy()
    })
    incoming.pipe(upstream)
  }

  /** Sends a request to the pod on an open connection; undefined after three attempts. */
  const open = async (
    { find, port }: Target,
    options: RequestOptions,
  ): Promise<ClientRequest | undefined> => {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const pod = find()
      const upstream = pod && request({ ...options, host: pod.ip, port })
      if (upstream !== undefined && (await hasConnected(upstream, dialTimeout, track))) return upstream
      await sleep(10 * attempt)
    }
    return undefined
  }

  const upgrade = async (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    track(client)
    const target = targetOf(incoming.headers, find)
    const socket = 'detail' in target ? undefined : await dial(target, dialTimeout, track)
    if (socket === undefined) return client.end('HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\n\r\n')
    last = forwarded(incoming)
    const { origin: _, ...headers } = last
    const lines = Object.entries({ ...headers, connection: 'upgrade', upgrade: 'websocket' })
    socket.write(
      `GET ${incoming.url} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
    )
    socket.write(head)
    socket.pipe(client).pipe(socket)
    client.on('close', () => socket.destroy())
    socket.on('close', () => client.destroy())
  }

  const server = createServer(
    (incoming, outgoing) => void proxy(incoming, outgoing).catch(() => outgoing.destroy()),
  )
  server.on('connection', track)
  server.on('upgrade', (incoming, client, head) => void upgrade(incoming, client, head))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const break_ = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    opened: () => opened,
    cuts: () => cut,
    cutAfter: (bytes) => {
      mostBytes = bytes
    },
    lastHeaders: () => last,
    break: break_,
    close: () =>
      new Promise((resolve) => {
        agent.destroy()
        server.close(() => resolve())
        break_()
      }),
  }
}

interface Target {
  id: string
  port: number
  /** Undefined if the pod does not exist yet, or no longer. */
  find: () => Pod | undefined
}

function targetOf(headers: IncomingHttpHeaders, find: RouterOptions['find']): Target | { detail: string } {
  const id = String(headers['x-sandbox-id'] ?? '')
  const namespace = String(headers['x-sandbox-namespace'] ?? 'default')
  const port = Number(headers['x-sandbox-port'] ?? 8888)
  if (id === '') return { detail: 'X-Sandbox-ID header is required.' }
  if (!DNS_LABEL.test(id)) return { detail: 'Invalid sandbox ID format.' }
  if (!DNS_LABEL.test(namespace)) return { detail: 'Invalid namespace format.' }
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return { detail: 'Invalid port format.' }
  return { id, port, find: () => find(namespace, id) }
}

/** Connects to the pod, with three attempts. */
async function dial(
  { find, port }: Target,
  timeout: number,
  track: (socket: Socket) => Socket,
): Promise<Socket | undefined> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const pod = find()
    const socket = pod && (await connected(track(connect(port, pod.ip)), timeout))
    if (socket !== undefined) return socket
    await sleep(10 * attempt)
  }
  return undefined
}

function connected(socket: Socket, timeout: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => socket.destroy(), timeout)
    socket.on('connect', () => {
      clearTimeout(timer)
      resolve(socket)
    })
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(undefined)
    })
  })
}

function hasConnected(
  upstream: ClientRequest,
  timeout: number,
  track: (socket: Socket) => Socket,
): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => upstream.destroy(), timeout)
    const settle = (isOpen: boolean) => {
      clearTimeout(timer)
      upstream.off('error', fail)
      // Later errors of an abandoned request do not matter.
      if (!isOpen) upstream.on('error', () => {})
      resolve(isOpen)
    }
    const fail = () => settle(false)
    upstream.on('error', fail)
    upstream.on('socket', (socket: Socket) => {
      if (!socket.connecting) return settle(true)
      track(socket)
      socket.once('connect', () => settle(true))
    })
  })
}

function forwarded({ headers, socket }: IncomingMessage): IncomingHttpHeaders {
  const { authorization: _, host, connection: __, ...rest } = headers
  return {
    ...rest,
    'x-forwarded-host': host,
    'x-forwarded-proto': 'http',
    'x-forwarded-for': socket.remoteAddress,
  }
}

function refuse(response: ServerResponse, status: number, detail: string): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ detail }))
}
