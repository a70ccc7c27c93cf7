/**
 * Server-sent events: from an iteration to the body of a response.
 *
 * The next event is read when the client has taken the previous one. So a client that does not read holds up its source
 * and does not fill the server's memory. Comments keep silent connections alive.
 */
import { onAbort } from '../base/abort.js'

/** One event. A client that reconnects with its `id` as `Last-Event-ID` continues after it. */
export interface ServerEvent {
  id?: number | undefined
  data: object
}

/** The source of events. `return` must not wait behind a pending `next`. */
export type EventSource = Required<Pick<AsyncIterator<ServerEvent[], undefined>, 'next' | 'return'>>

/** A handler returns this to send its response as events. */
export class EventStream {
  readonly source: EventSource

  constructor(source: EventSource) {
    this.source = source
  }
}

/** The events that `translate` makes of the values of an iteration, after those of `first`, and before those of `last`. */
export function events<T>(
  values: AsyncIterator<T, unknown>,
  translate: (value: T) => ServerEvent[],
  first: ServerEvent[] = [],
  last: () => ServerEvent[] = () => [],
): EventStream {
  let prelude: ServerEvent[] | undefined = first
  let isOver = false
  return new EventStream({
    async next() {
      if (prelude !== undefined) {
        const value = prelude
        prelude = undefined
        return { done: false, value }
      }
      if (isOver) return { done: true, value: undefined }
      const step = await values.next()
      if (!step.done) return { done: false, value: translate(step.value) }
      isOver = true
      return { done: false, value: last() }
    },
    async return() {
      await values.return?.()
      return { done: true, value: undefined }
    },
  })
}

export const EVENT_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  // Proxies that collect responses would hold events back.
  'x-accel-buffering': 'no',
}

const encoder = new TextEncoder()
const COMMENT = encoder.encode(':\n\n')

/**
 * The response. `gone` is aborted when the client disconnects: the body of a response that was never begun to be read is not
 * cancelled by that. `failed` makes the last event of an error. `onEnd` is called once, after the last byte.
 */
export function eventResponse(
  source: EventSource,
  gone: AbortSignal,
  heartbeatMs: number,
  failed: (error: unknown) => object,
  onEnd: () => void,
): Response {
  let isWanted = false
  let isOpen = true
  let timer: NodeJS.Timeout | undefined
  const end = () => {
    isOpen = false
    ignore()
    clearInterval(timer)
    onEnd()
  }
  const leave = async () => {
    if (!isOpen) return
    end()
    await source.return()
  }
  const ignore = onAbort(gone, () => void leave().catch(() => {}))
  if (gone.aborted) void leave().catch(() => {})
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        timer = setInterval(() => {
          if (isOpen && isWanted) controller.enqueue(COMMENT)
        }, heartbeatMs)
        timer.unref()
        // Headers and this event go out immediately, so the client knows that its request was accepted.
        controller.enqueue(COMMENT)
      },
      async pull(controller) {
        isWanted = true
        const step = await next(source, failed)
        isWanted = false
        // The client may have disconnected meanwhile.
        if (!isOpen) return
        if (step.chunk !== undefined) controller.enqueue(step.chunk)
        if (!step.last) return
        controller.close()
        end()
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: EVENT_HEADERS })
}

/** The next events as bytes; skips iterations without events. */
async function next(
  source: EventSource,
  failed: (error: unknown) => object,
): Promise<{ chunk?: Uint8Array; last: boolean }> {
  try {
    for (;;) {
      const step = await source.next()
      if (step.done) return { last: true }
      if (step.value.length > 0)
        return { chunk: encoder.encode(step.value.map(format).join('')), last: false }
    }
  } catch (error) {
    return { chunk: encoder.encode(format({ data: failed(error) })), last: true }
  }
}

/** JSON has no line breaks of its own, so an event is one `data:` line. */
function format({ id, data }: ServerEvent): string {
  return `${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
}
