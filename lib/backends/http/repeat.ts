/**
 * Which requests are repeated after a temporary failure, and when.
 *
 * Only idempotent ones: the first request may have reached the server although its reply was lost. A command, a start or
 * a signal is never repeated.
 */
import { Backoff } from '../../base/backoff.js'
import { isCode } from '../../base/errors.js'
import { pause } from '../../base/waiting.js'
import type { CallLimits } from './call-limits.js'
import { isBusy, UNAVAILABLE } from './failure.js'
import type { Request } from './request.js'

/** Milliseconds before the second, the third and the last attempt. */
const PAUSES_MS = [100, 300, 900]

function isRepeatable({ method, isIdempotent }: Request): boolean {
  return method === 'GET' || method === 'DELETE' || isIdempotent === true
}

/** Whether the connection failed, or the server or a proxy before it cannot answer at the moment. */
export function isTransient(error: unknown): boolean {
  if (!isCode(error, 'CONNECTION_FAILED')) return isBusy(error)
  const { status } = (error.cause ?? {}) as { status?: unknown }
  return typeof status !== 'number' || UNAVAILABLE.has(status)
}

const GONE = ['SESSION_NOT_FOUND', 'JOB_NOT_FOUND', 'CHECKPOINT_NOT_FOUND', 'FILE_NOT_FOUND'] as const

/** Whether a repeated DELETE found nothing, because an earlier attempt has succeeded. */
function isDeleted({ method }: Request, error: unknown): boolean {
  return method === 'DELETE' && isCode(error, ...GONE)
}

/** Makes a call, and repeats it after a temporary failure if that is safe. `attempt` sends its request once. */
export async function repeated<T>(
  request: Request,
  limits: CallLimits,
  attempt: (request: Request) => Promise<T>,
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await attempt(request)
    } catch (error) {
      if (failures > 0 && isDeleted(request, error)) return {} as T
      const wait = PAUSES_MS[failures]
      if (wait === undefined || !limits.allows(wait) || !isRepeatable(request) || !isTransient(error))
        throw error
      await pause(wait, limits.signal)
    }
  }
}

/** The pauses between two attempts to reach the server. */
export function reconnectBackoff(): Backoff {
  return new Backoff(50, 2000)
}
