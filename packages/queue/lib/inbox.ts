/**
 * Requests to a host, which wait in a list in Redis: no host needs an open port.
 *
 * They are hints. A claim or a request to cancel is in a key of its own, and a reader asks again, so none need arrive.
 */
import type { Redis } from 'ioredis'
import { clock, pause } from 'nacre/internal'

export type HostRequest =
  /** BullMQ's lock on the attempt was passed on to this host. */
  | { op: 'take'; id: string; attempt: number; uid: string; state: string }
  | { op: 'cancel'; id: string; attempt: number; grace: string }
  /** `reader` is the channel of the answer, `call` the number of the request there. */
  | {
      op: 'read' | 'news'
      id: string
      attempt: number
      cursor: number
      maxBytes: number
      reader: string
      call: number
    }

/** Seconds that one call waits for a request. */
const BLOCK_SECONDS = 5
/** A call that takes longer waits on a connection that was cut without a reset. */
const LATE_MS = BLOCK_SECONDS * 1000 + 5000
const PAUSE_MS = 500

/** Hands out requests until `stop` is aborted. The connection is for this alone, since the calls on it block. */
export async function readInbox(
  redis: Redis,
  key: string,
  take: (request: HostRequest) => void,
  stop: AbortSignal,
): Promise<void> {
  while (!stop.aborted) {
    const late = clock.setInterval(() => redis.disconnect(true), LATE_MS)
    try {
      const found = await redis.blpop(key, BLOCK_SECONDS)
      const request = found === null ? undefined : parse(found[1])
      if (request !== undefined && !stop.aborted) take(request)
    } catch {
      await pause(PAUSE_MS, stop)
    } finally {
      clock.clearInterval(late)
    }
  }
}

/** undefined for what is no request: any client of Redis can write to the list. */
function parse(text: string): HostRequest | undefined {
  try {
    const request = JSON.parse(text) as Partial<Record<string, unknown>> | null
    if (typeof request?.id !== 'string' || !Number.isSafeInteger(request.attempt)) return undefined
    const { op } = request
    if (op === 'cancel') return request as HostRequest
    if (op === 'take') return typeof request.uid === 'string' ? (request as HostRequest) : undefined
    const isRead =
      (op === 'read' || op === 'news') &&
      Number.isSafeInteger(request.cursor) &&
      Number(request.cursor) >= 0 &&
      Number.isSafeInteger(request.maxBytes) &&
      Number.isSafeInteger(request.call) &&
      typeof request.reader === 'string'
    return isRead ? (request as HostRequest) : undefined
  } catch {
    return undefined
  }
}
