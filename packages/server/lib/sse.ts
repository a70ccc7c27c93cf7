/**
 * Server-sent events: from an iteration to the body of a response.
 *
 * The next event is read when the client has taken the previous one. So a client that does not read holds up its source
 * and does not fill the server's memory. Comments keep silent connections alive.
 */
import { aborts, clock } from 'nacre/internal'
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

/** The events that `translate` makes of the values of an iteration, until the event `end`. */
export function eventsToEnd<T>(
  values: AsyncIterator<T, unknown>,
  translate: (value: T) => ServerEvent[] | Promise<ServerEvent[]>,
  first: ServerEvent[] = [],
): EventStream {
  return events(values, translate, first, () => [{ data: { type: 'end' } }])
}

/** The events that `translate` makes of the values of an iteration, after those of `first`, and before those of `last`. */
export function events<T>(
  values: AsyncIterator<T, unknown>,
  translate: (value: T) => ServerEvent[] | Promise<ServerEvent[]>,
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
      if (!step.done) return { done: false, value: await translate(step.value) }
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

/** Bytes that a stream may have left when the server ends: a segment of a kept call, and more. */
const MOST_BYTES_AT_END = 8 * 1024 * 1024

const encoder = new TextEncoder()
const COMMENT = encoder.encode(':\n\n')

export interface EventConnection {
  /** Aborted when the client disconnects: the body of a response that was never begun to be read is not cancelled by that. */
  gone: AbortSignal
  /** Aborted when the server ends, and with it the source. */
  closing: AbortSignal
  /** Milliseconds after which a silent stream sends a comment. */
  heartbeat: number
  /** Makes the last event of an error. */
  failed: (error: unknown) => object
  /** Called once, when the response has all events. */
  onEnd: () => void
}

/** The response. When the server ends, it takes the few events that are left: no client can hold up that end. */
export function eventResponse(source: EventSource, connection: EventConnection): Response {
  const { gone, closing, heartbeat, failed, onEnd } = connection
  let isWanted = false
  let isOpen = true
  let left = MOST_BYTES_AT_END
  let timer: NodeJS.Timeout | undefined
  let pumping: Promise<void> | undefined
  let ignoreClosing = () => {}
  const end = () => {
    isOpen = false
    ignore()
    ignoreClosing()
    clock.clearInterval(timer)
    onEnd()
  }
  const leave = async () => {
    if (!isOpen) return
    end()
    await source.return()
  }
  const ignore = aborts.onAbort(gone, () => void leave().catch(() => {}))
  if (gone.aborted) void leave().catch(() => {})
  const pump = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    do {
      isWanted = true
      const step = await next(source, failed)
      isWanted = false
      // The client may have disconnected meanwhile.
      if (!isOpen) return
      if (step.chunk !== undefined) controller.enqueue(step.chunk)
      if (step.last) {
        controller.close()
        end()
      }
      if (closing.aborted) left -= step.chunk?.length ?? 0
      if (isOpen && left < 0) {
        controller.error(new Error('the server has ended, and the client has not read what was left'))
        await leave()
      }
    } while (isOpen && closing.aborted)
  }
  const pumpOnce = (controller: ReadableStreamDefaultController<Uint8Array>) => {
    pumping ??= pump(controller).finally(() => {
      pumping = undefined
    })
    return pumping
  }
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (!isOpen) return
        const drain = () =>
          void pumpOnce(controller)
            .catch(leave)
            .catch(() => {})
        ignoreClosing = aborts.onAbort(closing, drain)
        if (closing.aborted) drain()
        timer = clock.setInterval(() => {
          if (isOpen && isWanted) controller.enqueue(COMMENT)
        }, heartbeat)
        timer.unref()
        // Headers and this event go out immediately, so the client knows that its request was accepted.
        controller.enqueue(COMMENT)
      },
      pull: pumpOnce,
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
