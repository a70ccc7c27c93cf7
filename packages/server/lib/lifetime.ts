/**
 * The early end of a request: its client disconnects, or the server ends.
 */
import { aborts } from 'nacre/internal'
/**
 * A signal that is aborted with the first of those given; `release` removes its listeners. AbortSignal.any would keep a
 * signal for each request as long as the server's own exists.
 */
export function firstOf(signals: AbortSignal[]): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController()
  const releases = signals.map((signal) => {
    if (signal.aborted) controller.abort(signal.reason)
    return aborts.onAbort(signal, () => controller.abort(signal.reason))
  })
  return {
    signal: controller.signal,
    release() {
      for (const release of releases) release()
    },
  }
}
