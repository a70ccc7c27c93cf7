/**
 * The early end of a call: its client cancels it or disconnects, or its deadline passes.
 */
import { clock, kinds } from 'nacre/internal'
import { Refused } from './status.js'

/** What a call of grpc-js offers for that. */
export interface EndingCall {
  on(event: 'cancelled', listener: () => void): unknown
  /** Milliseconds since the epoch, or Infinity. */
  getDeadline(): Date | number
}

export interface CallEnd {
  /** Aborted at the early end of the call. */
  signal: AbortSignal
  /** Removes the timer. */
  release(): void
  /** Why a call fails that has failed with this error. */
  reasonFor(error: unknown): unknown
}

/**
 * Watches for the early end of a call. grpc-js reports a deadline only when the client takes what was sent before, so the
 * deadline has a timer of its own here.
 *
 * At a deadline, three events race: this timer, the timer of grpc-js, and the reset of a client whose own timer has fired.
 * The first of them aborts the call, and the call may answer before the others. So the time of the answer decides between
 * DEADLINE_EXCEEDED and CANCELLED, not the event. Timers can be ahead of the wall clock by the length of one turn of the
 * event loop, so this timer counts in any case.
 */
export function endOf(call: EndingCall): CallEnd {
  const controller = new AbortController()
  const { signal } = controller
  const end = () => controller.abort(new Error('the call has ended'))
  call.on('cancelled', end)
  const deadline = Number(call.getDeadline())
  let isLate = false
  const expire = () => {
    isLate = true
    end()
  }
  const delay = Math.min(Math.max(deadline - Date.now(), 0), kinds.MAX_MILLISECONDS)
  const timer = Number.isFinite(deadline) ? clock.setTimeout(expire, delay) : undefined
  return {
    signal,
    release: () => clock.clearTimeout(timer),
    reasonFor(error) {
      if (isLate || Date.now() >= deadline)
        return new Refused('DEADLINE_EXCEEDED', 'the deadline of the call has passed')
      return signal.aborted ? new Refused('CANCELLED', 'the call was cancelled') : error
    },
  }
}
