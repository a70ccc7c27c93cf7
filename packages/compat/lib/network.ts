/** The network of a sandbox that a client has created: the rules of the SDKs as those of nacre. */
import type { NetworkRules } from 'nacre'
import { HttpError } from './failure.js'

/** What a sandbox may reach: everything that this machine reaches, nothing, or some hosts. */
export type RecordNetwork = 'host' | 'none' | ListedHosts

export interface ListedHosts {
  /** As nacre has them. */
  allow: string[]
  /** Headers that requests to a host get, by its name. */
  headers: Record<string, Record<string, string>>
}

const MOST_HOSTS = 256
/** A name, one with `*.` before it, or an IPv4 address. */
const HOST = /^(?:\*\.)?[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?$/i

/** Lists hosts, each with all of its ports. Throws HttpError. */
export function listHosts(hosts: readonly unknown[], name: string): string[] {
  if (hosts.length > MOST_HOSTS) throw new HttpError(400, `${name} must have at most ${MOST_HOSTS} hosts`)
  return hosts.map((host) => {
    // One address can be written as a range.
    const text = typeof host === 'string' ? host.trim().replace(/\/32$/, '') : ''
    if (text.includes('/'))
      throw new HttpError(
        501,
        `nacre does not support ranges of addresses in ${name}: list hosts or addresses`,
      )
    if (!HOST.test(text)) throw new HttpError(400, `${name} must have names of hosts, or IPv4 addresses`)
    return `${text.toLowerCase()}:*`
  })
}

/** The rules of nacre; undefined for those of the preset. */
export function networkRules(network: RecordNetwork): NetworkRules | undefined {
  if (typeof network === 'string') return undefined
  const { allow, headers } = network
  const handlers = Object.entries(headers).map(([host, added]) => {
    const handler: NonNullable<NetworkRules['handle']>[string] = (request, { forward }) => {
      const changed = new Request(request)
      for (const [name, value] of Object.entries(added)) changed.headers.set(name, value)
      return forward(changed)
    }
    return [80, 443].map((port) => [`${host}:${port}`, handler] as const)
  })
  return { allow, ...(handlers.length > 0 && { handle: Object.fromEntries(handlers.flat()) }) }
}
