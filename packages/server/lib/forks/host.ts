/**
 * Hosts like `3000.fork-1.localhost`, each for one port of one fork, and the headers of their requests.
 *
 * Such a host is an origin of its own, so a program needs no other name for itself than the one in the address: headers stay as they
 * are, except for what would tell the program a right, or reach beyond the host.
 */
import { LINK, NOT_RETURNED, NOT_SENT, otherProtocols } from '../ports/headers.js'
import type { Headers } from '../ports/pass-http.js'

/** Browsers resolve all of them to this machine. None is a name of the server. */
const BELOW_LOCALHOST = /\.localhost\.?(?::\d*)?$/i
const FORK = /^([1-9]\d{0,4})\.([a-z0-9-]+)\.localhost(?::\d{1,5})?$/i

/** How the names of cookies with a link begin. */
export const LINK_COOKIE = 'nacre-link-'

/** A port of a fork. */
export interface ForkPort {
  name: string
  port: number
}

/** Whether a header Host can only be one of a fork. */
export function isBelowLocalhost(host: string | undefined): boolean {
  return host !== undefined && BELOW_LOCALHOST.test(host)
}

/** Undefined for a host that no fork can have. */
export function forkPortOf(host: string | undefined): ForkPort | undefined {
  const [, digits, name = ''] = FORK.exec(host ?? '') ?? []
  const port = Number(digits)
  return port <= 65_535 ? { name: name.toLowerCase(), port } : undefined
}

/** Without the port of the server. */
export function hostOf({ name, port }: ForkPort): string {
  return `${port}.${name}.localhost`
}

/** The values of all cookies with the name. */
export function cookiesOf(header: string | undefined, name: string): string[] {
  const begin = `${name}=`
  return pairs(header).flatMap((pair) => (pair.startsWith(begin) ? [pair.slice(begin.length)] : []))
}

function pairs(header: string | undefined): string[] {
  return header?.split(';').map((pair) => pair.trim()) ?? []
}

/** The headers that the program gets. */
export function toProgram(headers: Headers, host: string, token: string | undefined): Headers {
  const sent = headers.flatMap(([name, value]): Headers => {
    if (NOT_SENT.test(name) || (name === 'referer' && LINK.test(value))) return []
    const kept =
      name === 'cookie'
        ? ownCookies(value)
        : name === 'sec-websocket-protocol'
          ? otherProtocols(value)
          : value
    return kept === undefined || (token !== undefined && hasToken(kept, token)) ? [] : [[name, kept]]
  })
  return [['host', host], ...sent]
}

function hasToken(value: string, token: string): boolean {
  return value.includes(token) || value.includes(encodeURIComponent(token))
}

/** Without links, also those of other servers: browsers send a cookie to all ports of a host. */
function ownCookies(header: string): string | undefined {
  const own = pairs(header).filter((pair) => !pair.startsWith(LINK_COOKIE))
  return own.length === 0 ? undefined : own.join('; ')
}

/** The headers that the client gets. */
export function toClient(headers: Headers, host: string, port: number): Headers {
  return headers
    .filter(
      ([name, value]) =>
        !NOT_RETURNED.test(name) && !(name === 'set-cookie' && /^\s*=?\s*nacre-link-/.test(value)),
    )
    .map(([name, value]) => {
      if (name === 'location' || name === 'content-location') return [name, locationOf(value, host, port)]
      if (name === 'set-cookie') return [name, ofHostAlone(value)]
      return [name, value]
    })
}

/** Some programs know themselves by their port alone, whatever the header Host says. */
function locationOf(value: string, host: string, port: number): string {
  if (!URL.canParse(value)) return value
  const { protocol, hostname, port: of, pathname, search, hash } = new URL(value)
  const isOwn = ['localhost', '127.0.0.1', '[::1]'].includes(hostname) && of === String(port)
  return isOwn && protocol === 'http:' ? `http://${host}${pathname}${search}${hash}` : value
}

/** A cookie without a domain, which would be sent to other ports of the fork, and in some clients to all hosts here. */
function ofHostAlone(cookie: string): string {
  const parts = cookie.split(';')
  return parts.filter((part, at) => at === 0 || !/^\s*domain\s*(?:=|$)/i.test(part)).join(';')
}
