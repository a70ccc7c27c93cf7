/**
 * Which requests are repeated after a temporary failure, and when.
 *
 * Only idempotent ones: the first request may have reached the server although its reply was lost. A command, a start or
 * a signal is never repeated.
 */
import { isCode } from '../../base/errors.js'
import { isBusy } from './failure.js'
import type { Request } from './request.js'

/** Milliseconds before the second, the third and the last attempt. */
export const PAUSES_MS = [100, 300, 900]

/** Statuses of a proxy or server that is unavailable for a moment. */
const PASSING = new Set([502, 503, 504])

export function isRepeatable({ method, isIdempotent }: Request): boolean {
  return method === 'GET' || method === 'DELETE' || isIdempotent === true
}

/** Whether the connection failed, or the server or a proxy before it cannot answer at the moment. */
export function mayPass(error: unknown): boolean {
  if (!isCode(error, 'CONNECTION_FAILED')) return isBusy(error)
  const { status } = (error.cause ?? {}) as { status?: unknown }
  return typeof status !== 'number' || PASSING.has(status)
}

/** Whether a repeated DELETE found nothing, because an earlier attempt has succeeded. */
export function isDeleted({ method }: Request, error: unknown): boolean {
  return method === 'DELETE' && isCode(error, 'SESSION_NOT_FOUND', 'JOB_NOT_FOUND')
}
