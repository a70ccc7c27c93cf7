/** Links to ports that expire. A server signs them with a key that it keeps to itself, so they end with it at the latest. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

/** The port of a session, or of the first session that listens on it. */
export interface PortOf {
  sessionId: string | undefined
  port: number
}

export class Links {
  readonly #key = randomBytes(32)

  /** The path of a link, which works for some milliseconds. A page finds what is below it by relative links. */
  path(of: PortOf, expiresIn: number): { path: string; expiresAt: Date } {
    const expiresAt = Date.now() + expiresIn
    return { path: `${pathOf(of)}~${this.#link(of, expiresAt)}/`, expiresAt: new Date(expiresAt) }
  }

  /** Whether a link was made for the port, and has not expired. */
  isValid(of: PortOf, link: string): boolean {
    const [time = ''] = link.split('.')
    const expiresAt = Number.parseInt(time, 36)
    const [given, own] = [Buffer.from(link), Buffer.from(this.#link(of, expiresAt))]
    return given.length === own.length && timingSafeEqual(given, own) && Date.now() < expiresAt
  }

  #link({ sessionId, port }: PortOf, expiresAt: number): string {
    // An id has no slash.
    const signed = `${sessionId ?? ''}/${port}/${expiresAt}`
    return `${expiresAt.toString(36)}.${createHmac('sha256', this.#key).update(signed).digest('base64url')}`
  }
}

/** Where the server forwards a port, without a slash at the end. */
export function pathOf({ sessionId, port }: PortOf): string {
  return `/v1/${sessionId === undefined ? '' : `sessions/${sessionId}/`}ports/${port}`
}
