/** Links to ports that expire. A server signs them with a key that it keeps to itself, so they end with it at the latest. */

import { crypto } from 'nacre/internal'

/** The port of a session, or of the first session that listens on it. */
export interface PortOf {
  sessionId: string | undefined
  port: number
}

/** A link, as its caller gets it. */
export interface PortLink {
  path: string
  /** The host that has the path, without a port, if it is another one than that of the server. */
  host: string | undefined
  expiresAt: Date
}

export class Links {
  readonly #key = crypto().randomBytes(32)

  /** The path of a link, which works for some milliseconds. A page finds what is below it by relative links. */
  path(of: PortOf, expiresIn: number): PortLink {
    const { link, expiresAt } = this.sign(of, expiresIn)
    return { path: `${pathOf(of)}~${link}/`, host: undefined, expiresAt: new Date(expiresAt) }
  }

  /** The link itself, and when it expires, in milliseconds since 1970. */
  sign(of: PortOf, expiresIn: number): { link: string; expiresAt: number } {
    const expiresAt = Date.now() + expiresIn
    return { link: this.#link(of, expiresAt), expiresAt }
  }

  /** When a link expires; undefined if it was not made for the port, or has expired. */
  expiry(of: PortOf, link: string): number | undefined {
    const [time = ''] = link.split('.')
    const expiresAt = Number.parseInt(time, 36)
    const [given, own] = [Buffer.from(link), Buffer.from(this.#link(of, expiresAt))]
    const isOwn = given.length === own.length && crypto().timingSafeEqual(given, own)
    return isOwn && Date.now() < expiresAt ? expiresAt : undefined
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
