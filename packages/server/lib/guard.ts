/**
 * Which callers are accepted, by every server of nacre: those with the token and, without a token, programs of this machine. A
 * page in a browser can reach this machine too, and is refused unless it is allowed.
 *
 * Several checks, since each alone can be bypassed. An `Origin` that is not allowed is a page of another site. A `Host`
 * that is not this machine's name is a page whose name was made to point here (DNS rebinding): it is sent without an
 * Origin for GET. Neither kind of page can choose the address of the peer. A header of a proxy means that the peer is the
 * proxy, and the caller may be anywhere.
 *
 * While ports are forwarded, pages of the sandbox's programs have the origin of this server. For a GET, their browser sends no
 * Origin, but it says by `Sec-Fetch-Site` that a page calls, and no page may call then unless its origin is allowed. Pages of forks
 * have origins of their own, so pages of other origins may not call while forks are served.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Logger } from 'nacre'
import { kinds, report, TOKEN_HEADER } from 'nacre/internal'
import { Refusal } from './failure.js'
import { Secret } from './secret.js'

const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i
const LOOPBACK_ADDRESS = /^(::ffff:)?127(\.\d{1,3}){3}$|^::1$/

/** Headers that proxies add. */
const PROXY_HEADER = /^(?:forwarded|via|x-real-ip|x-forwarded-.+)$/

/** The headers of a request, by their names in lower case. */
export interface HeaderFields {
  get(name: string): string | null
  keys(): Iterable<string>
}

/** The headers of a request of node:http. */
export function headerFields(headers: IncomingHttpHeaders): HeaderFields {
  return {
    get: (name) => headers[name]?.toString() ?? null,
    keys: () => Object.keys(headers),
  }
}

/** What a server trusts: its token, origins and names. */
export interface Trust {
  token?: string | undefined
  /** Whether each request has been checked, so that it needs no token. */
  isAuthenticated?: boolean
  /** Origins of pages that may call. Undefined: no page may, and there is no option for it. */
  allowedOrigins?: readonly string[]
  /** Whether a header `Host` names the server. Default: any name with a token, otherwise a name of this machine. */
  isName?: (host: string) => boolean
  logger?: Logger | undefined
}

/** What a server has besides its routes. */
export interface Served {
  /** Pages of its own, which may call it. */
  pages?: boolean
  /** Ports below its own paths, and so no such pages. */
  ports?: boolean
  /** Forks, with ports on hosts of their own. */
  forks?: boolean
}

export class Guard {
  readonly #token: Secret | undefined
  readonly #origins: Set<string> | undefined
  readonly #isAuthenticated: boolean
  readonly #isName: (host: string) => boolean
  readonly #served: Served
  readonly #logger: Logger | undefined

  constructor(
    { token, isAuthenticated = false, allowedOrigins, isName, logger }: Trust,
    served: Served = {},
  ) {
    this.#logger = logger
    this.#served = served
    this.#isAuthenticated = isAuthenticated
    this.#isName = isName ?? (isAuthenticated || token !== undefined ? () => true : isLoopbackName)
    this.#token = token === undefined ? undefined : new Secret(token)
    this.#origins = allowedOrigins && new Set(allowedOrigins)
  }

  /** Throws a Refusal. `peer` is the address of the other side, undefined when the runtime does not give it. */
  check(headers: HeaderFields, peer: string | undefined): void {
    this.checkOrigin(headers)
    if (this.#served.ports && siteOf(headers) !== 'none' && !this.#isListed(headers))
      this.#refusePage(
        'pages may not call while the server forwards ports, unless --allow-origin (the option allowedOrigins) has their origin',
      )
    if (this.#served.forks) this.#checkSite(headers)
    this.checkName(headers)
    this.#checkCaller(headers, peer)
  }

  #checkSite(headers: HeaderFields): void {
    if (/^(?:cross|same)-site$/.test(siteOf(headers)) && !this.#isListed(headers))
      this.#refusePage('pages of other origins may not call')
  }

  /** Throws a Refusal for a page whose origin is not allowed. */
  checkOrigin(headers: HeaderFields): void {
    this.#checkOrigin(headers, this.#served.pages === true)
  }

  /** The same for a request to a forwarded port, which pages of this origin may send. `hasLink`: it has a link to the port. */
  checkPort(headers: HeaderFields, peer: string | undefined, hasLink: boolean): void {
    this.#checkOrigin(headers, true)
    if (hasLink) return
    const isNavigation = headers.get('sec-fetch-mode') === 'navigate'
    if (this.#token === undefined && /^(?:cross|same)-site$/.test(siteOf(headers)) && !isNavigation)
      this.#refusePage('pages of other origins may not call')
    this.checkName(headers)
    this.#checkCaller(headers, peer)
  }

  /**
   * The same for a request to a host of a fork, whose name is no name of the server. `hasLink`: it has the cookie of a link.
   *
   * A browser sends the cookie, or calls from this machine, for pages of other forks as well. So only a person who follows a link may
   * come from another origin: in a frame, a page could cover what is clicked.
   */
  checkFork(headers: HeaderFields, peer: string | undefined, hasLink: boolean): void {
    this.#checkOrigin(headers, true)
    const isOpened =
      headers.get('sec-fetch-mode') === 'navigate' && headers.get('sec-fetch-dest') === 'document'
    if (!isOpened) this.#checkSite(headers)
    if (!hasLink) this.#checkCaller(headers, peer)
  }

  #isListed(headers: HeaderFields): boolean {
    return this.#origins?.has(headers.get('origin') ?? '') ?? false
  }

  #checkOrigin(headers: HeaderFields, allowsOwn: boolean): void {
    const origin = headers.get('origin')
    const isAllowed = origin === null || this.#isListed(headers) || (allowsOwn && isOwn(origin, headers))
    if (isAllowed) return
    if (this.#origins === undefined) this.#refusePage('pages in browsers may not call')
    if (origin === 'null')
      this.#refusePage(
        'pages without an origin, like files and sandboxed frames, may not call: serve the page over HTTP',
      )
    const what = kinds.describe(origin)
    this.#refusePage(
      `pages of ${what} may not call: if you trust them, start the server with --allow-origin ${what}, or the option allowedOrigins`,
    )
  }

  /** A browser hides the response from its page, so the log has the reason, too. */
  #refusePage(message: string): never {
    report(this.#logger, 'warn', message)
    throw new Refusal('FORBIDDEN', message)
  }

  /** Throws a Refusal for another name than that of the server. Health checks in HTTP/1.0 send none. */
  checkName(headers: HeaderFields): void {
    const host = headers.get('host')
    if (host === null || this.#isName(host)) return
    throw new Refusal(
      'FORBIDDEN',
      `this server has another name than the header Host: ${kinds.describe(host)}`,
    )
  }

  #checkCaller(headers: HeaderFields, peer: string | undefined): void {
    if (this.#token !== undefined) {
      if (!this.#token.is(tokenOf(headers)))
        throw new Refusal(
          'UNAUTHORIZED',
          'the header `Authorization: Bearer <token>` or `X-Nacre-Token: <token>` is missing or wrong',
        )
      return
    }
    if (this.#isAuthenticated) return
    if ([...headers.keys()].some((name) => PROXY_HEADER.test(name)))
      throw new Refusal(
        'FORBIDDEN',
        'requests through a proxy need a token: give the server the option token',
      )
    if (peer === undefined)
      throw new Refusal(
        'FORBIDDEN',
        'the address of the caller is unknown: give the server the option token, pass the second argument of the ' +
          "runtime's handler to fetch, or state with the option authenticated that you have checked the request",
      )
    if (!LOOPBACK_ADDRESS.test(peer))
      throw new Refusal('FORBIDDEN', 'without a token this server answers to this machine only')
  }
}

/**
 * Whether a page of this server calls. A page whose name was made to point here has the same origin; it has no token, and
 * without a token the name of this machine is checked, too.
 */
function isOwn(origin: string, headers: HeaderFields): boolean {
  const host = headers.get('host')
  return host !== null && (origin === `http://${host}` || origin === `https://${host}`)
}

/** From where a page calls, as its browser says: 'none' for a person, and for programs other than browsers. */
function siteOf(headers: HeaderFields): string {
  return headers.get('sec-fetch-site') ?? 'none'
}

/** The subprotocol by which a page sends its token when it opens a WebSocket: it cannot set headers then. */
const TOKEN_PROTOCOL = /(?:^|,)\s*nacre\.token\.([^\s,]+)/

/**
 * The token of a request. Its own header comes first: a proxy that keeps `Authorization` for itself may send another one
 * in its place.
 */
function tokenOf(headers: HeaderFields): string {
  const own = headers.get(TOKEN_HEADER)
  if (own !== null) return own
  const authorization = headers.get('authorization')
  if (authorization !== null) return /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? ''
  if (headers.get('upgrade')?.toLowerCase() !== 'websocket') return ''
  const [, protocol = ''] = TOKEN_PROTOCOL.exec(headers.get('sec-websocket-protocol') ?? '') ?? []
  return decoded(protocol)
}

/** A subprotocol cannot have every character that a token can: those are percent-encoded. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Whether a header `Host` names this machine. */
export function isLoopbackName(host: string): boolean {
  return LOOPBACK_HOST.test(host)
}

/** Whether a server on this host is reached from this machine alone. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || LOOPBACK_ADDRESS.test(host)
}

/** The address of the peer, by what the runtime gives with a request: Bun its server, Node the socket. */
export function peerOf(request: Request, env: unknown): string | undefined {
  const given = env as
    | {
        incoming?: { socket?: { remoteAddress?: string } }
        requestIP?: (request: Request) => { address: string } | null
      }
    | undefined
  if (typeof given?.requestIP === 'function') return given.requestIP(request)?.address ?? 'unknown'
  if (given?.incoming !== undefined) return given.incoming.socket?.remoteAddress ?? 'unknown'
  return undefined
}
