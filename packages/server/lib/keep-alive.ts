/**
 * Responses of calls that can take hours.
 *
 * Clients and proxies give up on a response that does not begin, many of them after five minutes. When a call takes
 * longer, its response begins with status 200 and blanks, which JSON allows, and ends with the reply, or with the envelope of its
 * error: readers of such a response look at `httpStatus` in the body.
 */
import { clearInterval, clearTimeout, setInterval, setTimeout } from 'nacre/internal'

const BLANK = new TextEncoder().encode(' ')

/** `settled` always resolves. `onEnd` is called when the response is complete, or the client has disconnected. */
export async function keptAlive(
  settled: Promise<Response>,
  heartbeatMs: number,
  onEnd: () => void,
): Promise<Response> {
  const first = await Promise.race([settled, delay(heartbeatMs, settled)])
  if (first !== undefined) {
    onEnd()
    return first
  }
  let timer: NodeJS.Timeout | undefined
  let isOpen = true
  const body = new ReadableStream<Uint8Array>(
    {
      async start(controller) {
        controller.enqueue(BLANK)
        timer = setInterval(() => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(BLANK)
        }, heartbeatMs)
        timer.unref()
        void settled.then(async (response) => {
          clearInterval(timer)
          const bytes = new Uint8Array(await response.arrayBuffer())
          onEnd()
          if (!isOpen) return
          controller.enqueue(bytes)
          controller.close()
        })
      },
      cancel() {
        isOpen = false
        clearInterval(timer)
      },
    },
    { highWaterMark: 4 },
  )
  return new Response(body, { headers: { 'content-type': 'application/json' } })
}

/** Undefined after some milliseconds; the timer ends with the promise. */
function delay(milliseconds: number, settled: Promise<unknown>): Promise<undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), milliseconds)
    const stop = () => clearTimeout(timer)
    settled.then(stop, stop)
  })
}
