/**
 * Responses of calls that can take hours.
 *
 * Clients and proxies give up on a response that does not begin, many of them after five minutes. When a call takes
 * longer, its response begins with status 200 and blanks, which JSON allows, and ends with the reply, or with the envelope of its
 * error: readers of such a response look at `httpStatus` in the body.
 */
import { clock } from 'nacre/internal'

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
  const reply = settled.then((response) => {
    clock.clearInterval(timer)
    onEnd()
    return response.body?.getReader()
  })
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        controller.enqueue(BLANK)
        timer = clock.setInterval(() => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(BLANK)
        }, heartbeatMs)
        timer.unref()
      },
      async pull(controller) {
        const { value } = (await (await reply)?.read()) ?? {}
        if (value === undefined) controller.close()
        else controller.enqueue(value)
      },
      cancel() {
        clock.clearInterval(timer)
        void reply.then((reader) => reader?.cancel())
      },
    },
    { highWaterMark: 4 },
  )
  return new Response(body, { headers: { 'content-type': 'application/json' } })
}

/** Undefined after some milliseconds; the timer ends with the promise. */
function delay(milliseconds: number, settled: Promise<unknown>): Promise<undefined> {
  return new Promise((resolve) => {
    const timer = clock.setTimeout(() => resolve(undefined), milliseconds)
    const stop = () => clock.clearTimeout(timer)
    settled.then(stop, stop)
  })
}
