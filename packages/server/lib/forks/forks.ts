/**
 * The forks of the served sandbox. Each has the routes of a server below `/forks/{name}`, and each of its ports a host like
 * `3000.fork-1.localhost`.
 *
 * Programs of a fork may be hostile, and so may their pages. A page has an origin of its own, and its host has none of the routes of
 * the server. No page may call the server, or another host, unless its origin is allowed (guard.ts). A host leads only into network
 * namespaces of the fork's sessions: without one, a port would be one of the machine.
 */
import type { Duplex } from 'node:stream'
import type { Context } from 'hono'
import { engineError, isCode, kinds } from 'nacre/internal'
import type { NativeBackend } from 'nacre/internal/server'
import { Refusal } from '../failure.js'
import { type Guard, peerOf } from '../guard.js'
import { type Bindings, passOn } from '../ports/pass-on.js'
import type { Server } from '../public.js'
import { type ForkPort, forkPortOf, isBelowLocalhost, toClient, toProgram } from './host.js'
import { HostLinks } from './host-links.js'

/** Where a link is opened, and what follows it. */
const OPENED = /^\/\.nacre\/([\w.-]+)(\/.*)?$/
/** The path of a fork's routes. */
const BELOW = /^\/forks\/([a-z0-9-]+)(?:\/|$)/

/** What came between the look at the sessions and the connection. */
const ENDED = ['PORT_CLOSED', 'SESSION_NOT_FOUND', 'SESSION_DESTROYED', 'SESSION_TERMINATED'] as const

interface ServedFork {
  backend: NativeBackend
  links: HostLinks
  server: Server
}

/** Makes the server of a fork, whose routes are below a path. */
export type BuildServer = (backend: NativeBackend, base: string, links: HostLinks) => Server

interface Settings {
  token: string | undefined
  guard: Guard
  /** Aborted when the server ends. */
  closing: AbortSignal
  build: BuildServer
}

export class Forks {
  readonly #backend: NativeBackend
  readonly #settings: Settings
  readonly #served = new Map<string, ServedFork>()

  constructor(backend: NativeBackend, settings: Settings) {
    this.#backend = backend
    this.#settings = settings
  }

  /** The names of the open forks. */
  names(): string[] {
    return this.#backend.forks.all().map(([name]) => name)
  }

  /** The server of the fork that a path is below. */
  serverOf(path: string): Server | undefined {
    const [, name] = BELOW.exec(path) ?? []
    return name === undefined ? undefined : this.#find(name)?.server
  }

  /** Ends what runs in the forks. */
  async close(): Promise<void> {
    await Promise.all(this.names().map((name) => this.#find(name)?.server.close()))
  }

  #find(name: string): ServedFork | undefined {
    const backend = this.#backend.forks.all().find(([known]) => known === name)?.[1]
    const known = this.#served.get(name)
    if (backend === undefined || known?.backend === backend) return known
    const links = new HostLinks(name)
    const server = this.#settings.build(backend, `/forks/${name}`, links)
    this.#served.set(name, { backend, links, server })
    backend.onDestroy(() => {
      if (this.#served.get(name)?.backend === backend) this.#served.delete(name)
      void server.close()
    })
    return this.#served.get(name)
  }

  #check(c: Context, hasLink: boolean): void {
    try {
      this.#settings.guard.checkFork(c.req.raw.headers, peerOf(c.req.raw, c.env), hasLink)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'UNAUTHORIZED') throw error
      throw new Refusal(
        'UNAUTHORIZED',
        'open the port from the console, by a link of portUrl, or with the token in X-Nacre-Token',
      )
    }
  }

  /** Answers a request to a host below localhost. Resolves when the reply has been sent, or with one to send. */
  async forward(c: Context): Promise<Response> {
    const { incoming } = c.env as Bindings
    const { token, closing } = this.#settings
    const { host = '', cookie } = incoming.headers
    const to = forkPortOf(host)
    const fork = to && this.#find(to.name)
    const { url = '' } = incoming
    const [opened, link = '', rest = '/'] = OPENED.exec(url) ?? []
    if (to !== undefined && fork !== undefined && opened !== undefined)
      return fork.links.open(to.port, link, rest, incoming)
    const hasLink = to !== undefined && fork?.links.isOpened(to.port, cookie) === true
    this.#check(c, hasLink)
    if (to === undefined || fork === undefined)
      throw new Refusal(
        'NOT_FOUND',
        `${kinds.describe(host)} is no host of an open fork, like 3000.fork-1.localhost`,
      )
    if (!url.startsWith('/'))
      throw new Refusal('VALIDATION_FAILED', 'a request for a port must have a path, without the host')
    return passOn(c, {
      ...{ path: url, port: to.port, closing },
      headers: (headers) => toProgram(headers, host, token),
      reply: (headers) => toClient(headers, host, to.port),
      connect: () => connect(fork.backend, to),
    })
  }
}

/** Whether a request is for a host below localhost, by its header or by its address. */
export function isForHost(request: Request, env: unknown): boolean {
  const { incoming } = (env ?? {}) as Partial<Bindings>
  return isBelowLocalhost(incoming?.headers.host) || isBelowLocalhost(new URL(request.url).host)
}

/** Connects to the first session that listens, of those with a network namespace. */
async function connect(backend: NativeBackend, { name, port }: ForkPort): Promise<Duplex> {
  let isApart = false
  try {
    for (const id of await backend.listSessions()) {
      if (!(await backend.isApart(id))) continue
      isApart = true
      try {
        return await backend.connectPort(id, port)
      } catch (error) {
        if (!ENDED.some((code) => isCode(error, code))) throw error
      }
    }
  } catch (error) {
    if (isCode(error, 'SANDBOX_DESTROYED')) throw new Refusal('NOT_FOUND', `the fork '${name}' has ended`)
    throw error
  }
  if (isApart) throw engineError('PORT_CLOSED', `no program of the fork '${name}' listens on port ${port}`)
  throw new Refusal(
    'FORBIDDEN',
    `the fork '${name}' has the network of the machine, so a host could lead to a program of the machine: give the sandbox ` +
      "isolation with rules for the network, like the preset 'workspace', on a machine with namespaces (nacre doctor)",
  )
}
