/**
 * What ends a request early: its client disconnects, or the server ends.
 */
import { onAbort } from '../base/abort.js'

/**
 * A signal that is aborted with the first of those given; `release` lets go of them. AbortSignal.any would hold on to a
 * signal as long as the server's own lives, for each request.
 */
export function firstOf(signals: AbortSignal[]): { signal: AbortSignal; release: () => void } {
  const controller = new AbortController()
  const releases = signals.map((signal) => {
    if (signal.aborted) controller.abort(signal.reason)
    return onAbort(signal, () => controller.abort(signal.reason))
  })
  return {
    signal: controller.signal,
    release() {
      for (const release of releases) release()
    },
  }
}
