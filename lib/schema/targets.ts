/** Hosts with ports, as lists of the network rules have them. */
import { byName, mapped, text } from './constructors.js'
import type { Kind } from './kind.js'
import { type RefusalTraits, refusal } from './read.js'

/** A host name, `*.` and a domain, an IPv4 address or a bracketed IPv6 address; a colon; a port or `*`. */
const TARGET = /^(?:(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]):(\d{1,5}|\*)$/i

/** Resolvers take names like these for addresses. */
const NUMBER = /(?:^|\.)(?:\d+|0x[^.]*)$/i
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/
const MAX_HOST_LENGTH = 253

/** As the engine reads it: an entry that it could not read would allow nothing, and deny nothing. */
function isTarget(text: string): boolean {
  const port = TARGET.exec(text)?.[1]
  const host = text.slice(0, -1 - (port ?? '').length)
  if (host.length > MAX_HOST_LENGTH) return false
  const isHost = host.startsWith('[') ? URL.canParse(`http://${host}`) : !NUMBER.test(host) || IPV4.test(host)
  return isHost && (port === '*' || (Number(port) >= 1 && Number(port) <= 65_535))
}

const TARGET_RULE = "must be a host and a port like 'example.com:443' or '*.example.com:443'"
const written = text(isTarget, TARGET_RULE)

/** An entry of a list of hosts, in lower case. */
export const target = mapped(
  {
    ...written,
    read(value, name) {
      const meant = typeof value === 'string' && !isTarget(value) ? targetMeantBy(value) : undefined
      if (meant === undefined) return written.read(value, name)
      throw refusal(name, `${TARGET_RULE}: write '${meant}'`, value)
    },
  },
  (text) => text.toLowerCase(),
)

/** The usual ports of the schemes of URLs. */
const PORTS = new Map(Object.entries({ 'http:': 80, 'ws:': 80, 'ftp:': 21, 'ssh:': 22, 'git:': 9418 }))
const HTTPS = 443
/** A longer text is no URL that anything was copied from. */
const LONGEST_URL = 4095
const SCHEME = /^[a-z][a-z0-9+.-]*:\/\//i

/** The host and port of a URL, or of a host without a port. Undefined for anything else. */
function targetMeantBy(text: string): string | undefined {
  if (text.length > LONGEST_URL) return undefined
  const url = SCHEME.test(text) ? text : `https://${text}`
  if (!URL.canParse(url)) return undefined
  const { protocol, hostname, port } = new URL(url)
  const target = `${hostname}:${port || (PORTS.get(protocol) ?? HTTPS)}`
  // A URL would read 010.0.0.5, or the number 5, as another address: what the writer meant is unknown.
  return isTarget(target) && text.toLowerCase().includes(hostname) ? target : undefined
}

/** The host and port that a text names, in lower case, or that are meant by a URL. Undefined for a path, and for a pattern. */
export function hostIn(text: string): string | undefined {
  if (isTarget(text)) return text.includes('*') ? undefined : text.toLowerCase()
  return SCHEME.test(text) ? targetMeantBy(text) : undefined
}

const ORIGIN_RULE = "must be the name of one host, like 'api.example.com' or 'api.example.com:8443'"
const LABEL = '[a-z0-9](?:[a-z0-9-]*[a-z0-9])?'
const ORIGIN = new RegExp(`^(?:${LABEL}\\.)*${LABEL}:\\d+$`, 'i')

function isOrigin(text: string): boolean {
  return isTarget(text) && ORIGIN.test(text) && !NUMBER.test(text.slice(0, text.lastIndexOf(':')))
}

/** One host that certificates name, in lower case, with its port: without any, the one of HTTPS. */
export function origin(traits: RefusalTraits = {}): Kind<string> {
  return mapped(
    {
      ...written,
      read(value, name) {
        const text = typeof value === 'string' ? value : ''
        const given = /:[^\]]*$/.test(text) ? text : `${text}:${HTTPS}`
        if (isOrigin(given)) return given
        const meant = traits.isSecret ? undefined : targetMeantBy(text)
        const remedy = meant !== undefined && isOrigin(meant) ? `: write '${meant}'` : ''
        throw refusal(name, ORIGIN_RULE + remedy, value, traits)
      },
    },
    (text) => text.toLowerCase(),
  )
}

const MAX_HOSTS = 50

/** An object with a value for each host, like `example`. The result has hosts with ports. `what`: the values, for messages. */
export function byHost<In, Out>(
  kind: Kind<In, Out>,
  what: string,
  example: string,
): Kind<Record<string, In>, Record<string, Out>> {
  const rule = `must be an object of ${what} like { 'api.example.com': ${example} }`
  const bounds = `at most ${MAX_HOSTS} hosts with ${what}`
  const host = origin()
  return byName(kind, MAX_HOSTS, { what: 'hosts', rule, bounds }, (given, name) => ({
    key: host.read(given, `a key of ${name}`),
    owner: `${name}['${given}']`,
  }))
}
