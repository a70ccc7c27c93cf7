/**
 * The early end of a call: its client cancels it or disconnects, or its deadline passes.
 */

/** What a call of grpc-js offers for that. */
export interface EndingCall {
  on(event: 'cancelled', listener: () => void): unknown
  /** Milliseconds since the epoch, or Infinity. */
  getDeadline(): Date | number
}

/** The longest delay of a timer. */
const MAX_DELAY_MS = 0x7fff_ffff

/**
 * A signal that is aborted at the end of the call; `release` removes its timer. grpc-js reports a deadline only when the
 * client takes what was sent before, so the deadline has a timer of its own here.
 */
export function endOf(call: EndingCall): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController()
  const end = () => controller.abort(new Error('the call has ended'))
  call.on('cancelled', end)
  const left = Number(call.getDeadline()) - Date.now()
  const timer = Number.isFinite(left) ? setTimeout(end, Math.min(Math.max(left, 0), MAX_DELAY_MS)) : undefined
  return { signal: controller.signal, release: () => clearTimeout(timer) }
}
