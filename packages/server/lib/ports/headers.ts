/**
 * The headers of requests to programs and of their replies.
 *
 * A program may be hostile, and its pages have the origin of the server. It must not learn the token of the server, get cookies
 * of others on this host, or change what a browser does with the rest of the origin. Its links, redirects and cookies must
 * stay below the path of its port.
 */
import type * as passHttp from './pass-http.js'

/** Between the client and the server. */
export interface Outside {
  /** As the client sees the server, with the port: its header Host. */
  host: string
  /** Where the server forwards the port, without a slash at the end. */
  prefix: string
  port: number
  token: string | undefined
}

/** What proxies before the server say about the client, and what clients say to the server itself. */
export const NOT_SENT = /^(?:host|forwarded|via|x-real-ip|x-forwarded-.+|x-nacre-.+)$/

/** What would reach beyond the path of the port, to the whole origin. */
export const NOT_RETURNED =
  /^(?:accept-ch|alt-svc|clear-site-data|expect-ct|nel|public-key-pins.*|refresh|report-to|reporting-endpoints|secure-session-registration|service-worker-allowed|set-login|strict-transport-security|use-as-dictionary|x-nacre-.+)$/
/** The path of a link to a port, which is a right. */
export const LINK = /\/ports\/\d{1,5}~/

/** The headers that the program gets. */
export function toProgram(headers: passHttp.Headers, outside: Outside): passHttp.Headers {
  const own = `localhost:${outside.port}`
  const sent = headers.flatMap(([name, value]): passHttp.Headers => {
    if (NOT_SENT.test(name)) return []
    const changed = changedFor(name, value, outside)
    return changed === undefined || hasToken(changed, outside) ? [] : [[name, changed]]
  })
  return [['host', own], ...sent]
}

function changedFor(name: string, value: string, outside: Outside): string | undefined {
  if (name === 'origin') return isOwn(value, outside) ? `http://localhost:${outside.port}` : value
  if (name === 'referer') return refererOf(value, outside)
  if (name === 'cookie') return ownCookies(value, outside.port)
  if (name === 'sec-websocket-protocol') return otherProtocols(value)
  return value
}

function hasToken(value: string, { token }: Outside): boolean {
  return token !== undefined && (value.includes(token) || value.includes(encodeURIComponent(token)))
}

/** Whether a URL is one of this server. */
function isOwn(url: string, { host }: Outside): boolean {
  return URL.canParse(url) && /^https?:$/.test(new URL(url).protocol) && new URL(url).host === hostOf(host)
}

/** Without the port that a URL omits. */
function hostOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).host : host
}

/** A page of the port, as the program knows it. Other pages of the server are not its business: their paths have links. */
function refererOf(value: string, outside: Outside): string | undefined {
  // A proxy may have changed the header Host.
  if (!isOwn(value, outside)) return LINK.test(value) ? undefined : value
  const { pathname, search } = new URL(value)
  if (!pathname.startsWith(`${outside.prefix}/`)) return undefined
  return `http://localhost:${outside.port}${pathname.slice(outside.prefix.length)}${search}`
}

const cookiePrefix = (port: number) => `nacre-${port}-`

/** The cookies that programs on this port have set. Browsers do not separate cookies by ports. */
function ownCookies(value: string, port: number): string | undefined {
  const prefix = cookiePrefix(port)
  const own = value
    .split(';')
    .map((cookie) => cookie.trim())
    .filter((cookie) => cookie.startsWith(prefix))
  return own.length === 0 ? undefined : own.map((cookie) => cookie.slice(prefix.length)).join('; ')
}

/** Without those that carry a token. */
export function otherProtocols(value: string): string | undefined {
  const others = value.split(/,\s*/).filter((protocol) => !protocol.startsWith('nacre.token.'))
  return others.length === 0 ? undefined : others.join(', ')
}

/** The headers that the client gets. `path`: that of the request, as the program knows it. */
export function toClient(headers: passHttp.Headers, path: string, outside: Outside): passHttp.Headers {
  const isLink = LINK.test(outside.prefix)
  return headers
    .filter(([name]) => !NOT_RETURNED.test(name) && !(isLink && name === 'referrer-policy'))
    .concat(isLink ? [['referrer-policy', 'no-referrer']] : [])
    .map(([name, value]) => {
      if (name === 'location' || name === 'content-location') return [name, locationOf(value, path, outside)]
      if (name === 'set-cookie') return [name, cookieOf(value, outside)]
      return [name, value]
    })
}

/** An address of the program below the path of the port. One that names the server itself is the program's, too. */
function locationOf(value: string, path: string, outside: Outside): string {
  const own = `http://localhost:${outside.port}`
  if (!URL.canParse(value, own + path)) return `${outside.prefix}/`
  const url = new URL(value, own + path)
  const isLocal =
    ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname) && url.port === String(outside.port)
  const isPlain = /^https?:$/.test(url.protocol)
  if (!isPlain || !(isLocal || url.origin === new URL(own).origin || isOwn(url.href, outside))) return value
  return outside.prefix + url.pathname + url.search + url.hash
}

/** With a name that only programs on this port use, and only for the path of the port. */
function cookieOf(value: string, { prefix, port }: Outside): string {
  const [pair = '', ...attributes] = value.split(';').map((part) => part.trim())
  const given =
    attributes.map((attribute) => /^path\s*=\s*(\/.*)/i.exec(attribute)?.[1]).findLast(Boolean) ?? '/'
  const others = attributes.filter((attribute) => !/^(?:path|domain)\s*(?:=|$)/i.test(attribute))
  return [cookiePrefix(port) + pair, `Path=${prefix}${given}`, ...others].join('; ')
}
