/** Replies that are JSON, but not those of this library's server. */
import { SandboxError } from '../../base/errors.js'

export function malformed(): SandboxError {
  return new SandboxError(
    'CONNECTION_FAILED',
    'the server answered with something else than this client expects: check the URL of the server, the proxies before ' +
      'it, and that server and client have the same version',
  )
}

/** The value, if it is an object. */
export function objectOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null) throw malformed()
  return value
}

/** The list of objects in a reply. */
export function listOf<T>(value: T[]): T[] {
  if (!Array.isArray(value)) throw malformed()
  for (const item of value) objectOf(item)
  return value
}
