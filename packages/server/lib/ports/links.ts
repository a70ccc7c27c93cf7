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
    const link = `${expiresAt.toString(36)}.${this.#sign(of, expiresAt).toString('base64url')}`
    return { path: `${pathOf(of)}~${link}/`, expiresAt: new Date(expiresAt) }
  }

  /** Whether a link was made for the port, and has not expired. */
  isValid(of: PortOf, link: string): boolean {
    const [time = '', signature = ''] = link.split('.')
    const expiresAt = Number.parseInt(time, 36)
    const given = Buffer.from(signature, 'base64url')
    const own = this.#sign(of, expiresAt)
    return given.length === own.length && timingSafeEqual(given, own) && Date.now() < expiresAt
  }

  #sign({ sessionId, port }: PortOf, expiresAt: number): Buffer {
    // An id has no slash.
    return createHmac('sha256', this.#key)
      .update(`${sessionId ?? ''}/${port}/${expiresAt}`)
      .digest()
  }
}

/** Where the server forwards a port, without a slash at the end. */
export function pathOf({ sessionId, port }: PortOf): string {
  return `/v1/${sessionId === undefined ? '' : `sessions/${sessionId}/`}ports/${port}`
}
