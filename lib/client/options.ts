/**
 * The options of SandboxClient.
 */
import type { Logger } from '../../index.js'
import { OptionError } from '../errors.js'
import { milliseconds } from '../options/numbers.js'
import { readArgument, readOptions } from '../options/read.js'
import { callback, logger } from '../options/values.js'

export interface ClientPlan {
  /** Without a slash at the end. */
  url: string
  headers: Record<string, string>
  fetch: typeof fetch
  /** Milliseconds. */
  reconnectTimeout: number
  logger: Logger | undefined
}

const clientOptions = { url: serverUrl, token, fetch: callback, reconnectTimeout: milliseconds, logger }

const DEFAULT_RECONNECT_MS = 30_000

/** Checks the options of `new SandboxClient`. Throws OptionError. */
export function planClient(options: unknown): ClientPlan {
  const values = readOptions(clientOptions, options, 'SandboxClient')
  const given = values.fetch as typeof fetch | undefined
  return {
    url: values.url ?? readArgument(serverUrl, undefined, 'url'),
    headers: values.token === undefined ? {} : { authorization: `Bearer ${values.token}` },
    // Browsers want it to be called as a function of the global object.
    fetch: given ?? ((input, init) => fetch(input, init)),
    reconnectTimeout: values.reconnectTimeout ?? DEFAULT_RECONNECT_MS,
    logger: values.logger,
  }
}

function serverUrl(value: unknown, name: string): string {
  const text = value instanceof URL ? value.href : value
  if (typeof text === 'string' && URL.canParse(text)) {
    const { protocol, search, hash, username, password } = new URL(text)
    if (/^https?:$/.test(protocol) && search + hash + username + password === '')
      return text.replace(/\/+$/, '')
  }
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be an http: or https: URL without user, query and fragment`,
  )
}

/** The message never has it. */
function token(value: unknown, name: string): string {
  if (typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)) return value
  throw new OptionError('INVALID_OPTION', `${name} must be printable ASCII without blanks`)
}
