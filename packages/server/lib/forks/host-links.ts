/**
 * Links to the hosts of a fork. A browser opens one, keeps it as a cookie of that host alone, and goes on without it in the address:
 * the program and its pages never see it.
 *
 * A later fork can have the name of an earlier one, and so its origin. What pages of the earlier one have left in the browser, like a script
 * in the cache, must not become a part of the later one's: the first link of a fork that a browser opens clears it.
 */
import type { IncomingMessage } from 'node:http'
import { crypto } from 'nacre/internal'
import { Refusal } from '../failure.js'
import { Links, type PortLink, type PortOf } from '../ports/links.js'
import { cookiesOf, hostOf, LINK_COOKIE } from './host.js'

export class HostLinks {
  readonly #name: string
  readonly #links = new Links()
  /** Of this fork alone: another server on this machine can have a fork with the same name. */
  readonly #cookie = LINK_COOKIE + crypto().randomBytes(6).toString('hex')

  constructor(name: string) {
    this.#name = name
  }

  /** Throws a Refusal for a port of one session. */
  link({ sessionId, port }: PortOf, expiresIn: number): PortLink {
    if (sessionId !== undefined)
      throw new Refusal(
        'VALIDATION_FAILED',
        'sessionId: a host of a fork leads to the first session that listens',
      )
    const { link, expiresAt } = this.#links.sign({ sessionId, port }, expiresIn)
    return {
      path: `/.nacre/${link}/`,
      host: hostOf({ name: this.#name, port }),
      expiresAt: new Date(expiresAt),
    }
  }

  /** Sets the cookie, and leads to the rest of the path. Throws a Refusal. */
  open(port: number, link: string, rest: string, { method, headers: { cookie } }: IncomingMessage): Response {
    if (method !== 'GET' && method !== 'HEAD')
      throw new Refusal('VALIDATION_FAILED', 'a link is opened by GET: send what follows without it')
    const expiresAt = this.#links.expiry({ sessionId: undefined, port }, link)
    if (expiresAt === undefined)
      throw new Refusal('UNAUTHORIZED', 'the link is wrong or has expired: ask for another one')
    const seconds = Math.ceil((expiresAt - Date.now()) / 1000)
    const isKnown = cookiesOf(cookie, this.#cookie).length > 0
    const headers = {
      ...(isKnown ? {} : { 'clear-site-data': '"cache", "storage"' }),
      // Two slashes would be the begin of another host.
      location: rest.replace(/^[/\\]+/, '/'),
      'set-cookie': `${this.#cookie}=${link}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax`,
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
    }
    return new Response(null, { status: 303, headers })
  }

  /** Whether a header Cookie has a link to the port. A page can have set other ones. */
  isOpened(port: number, cookies: string | undefined): boolean {
    return cookiesOf(cookies, this.#cookie).some(
      (link) => this.#links.expiry({ sessionId: undefined, port }, link) !== undefined,
    )
  }
}
