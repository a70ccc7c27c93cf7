/** Links to ports that expire. A server signs them with a key that it keeps to itself, so they end with it at the latest. */

import { crypto } from 'nacre/internal'

/** The port of a session, or of the first session that listens on it. */
export interface PortOf {
  sessionId: string | undefined
  port: number
}

export class Links {
  readonly #key = crypto().randomBytes(32)

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
    return given.length === own.length && crypto().timingSafeEqual(given, own) && Date.now() < expiresAt
  }

  #link({ sessionId, port }: PortOf, expiresAt: number): string {
    // An id has no slash.
    const signed = `${sessionId ?? ''}/${port}/${expiresAt}`
    const hmac = crypto().createHmac('sha256', this.#key).update(signed)
    return `${expiresAt.toString(36)}.${hmac.digest('base64url')}`
  }
}

/** Where the server forwards a port, without a slash at the end. */
export function pathOf({ sessionId, port }: PortOf): string {
  return `/v1/${sessionId === undefined ? '' : `sessions/${sessionId}/`}ports/${port}`
}
