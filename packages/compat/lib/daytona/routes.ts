/** Routes below the toolbox of a sandbox. */
import type { IncomingMessage } from 'node:http'
import type { Hosted } from '../hosted.js'
import type { Exchange } from '../http.js'
import type { DaytonaRecord } from './record.js'
import type { Use } from './sockets.js'
import { decoded } from './values.js'

export interface Call extends Exchange {
  hosted: Hosted<DaytonaRecord>
  /** What stands for the `:` of the route. */
  params: string[]
}

/** By their methods and paths. A `:` stands for one segment. */
export type Routes = Record<string, (call: Call) => void | Promise<void>>

/** By their paths, with `:` for one segment. What they return uses the WebSocket when the handshake is complete. */
export type SocketRoutes = Record<
  string,
  (
    hosted: Hosted<DaytonaRecord>,
    query: URLSearchParams,
    params: string[],
    request: IncomingMessage,
  ) => Use | Promise<Use>
>

interface Found<T> {
  run: T
  params: string[]
}

/** The route for a method and a path like 'GET /a/b'. Throws HttpError for a wrong escape. */
export function match<T>(routes: Record<string, T>, wanted: string): Found<T> | undefined {
  const segments = wanted.replace(/\/$/, '').split('/')
  for (const [route, run] of Object.entries(routes)) {
    const expected = route.split('/')
    if (expected.length !== segments.length) continue
    if (expected.every((segment, at) => segment === ':' || segment === segments[at]))
      return { run, params: segments.filter((_, at) => expected[at] === ':').map(decoded) }
  }
  return undefined
}
