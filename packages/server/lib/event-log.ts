/**
 * The events of a call that survives its connection. They are numbered, and kept until the client has them.
 *
 * A response ends after 1 MiB of events, and the client asks for the rest with the number of the last event that it has
 * received. That request is the acknowledgement: the server drops the events up to there. So the server keeps little more
 * than 1 MiB, whether the client reads slowly, has lost its connection, or never returns.
 */
import { Refusal } from './failure.js'
import type { EventSource, ServerEvent } from './sse.js'

/** Bytes of output in one response. */
const SEGMENT_BYTES = 1024 * 1024

interface NumberedEvent {
  id: number
  data: object
}

export class EventLog {
  readonly #source: EventSource
  readonly #failed: (error: unknown) => object
  #events: NumberedEvent[] = []
  /** The number of the last event. */
  #last = 0
  #isOver = false
  #pull: Promise<void> | undefined

  /** `failed` makes the last event of an error. */
  constructor(source: EventSource, failed: (error: unknown) => object) {
    this.#source = source
    this.#failed = failed
  }

  /** Whether the source has ended. */
  get isOver(): boolean {
    return this.#isOver
  }

  /**
   * The events after a number, for one response. Throws a Refusal when they have been dropped. Once `closing` is aborted,
   * there is no next response, so this one takes all of them.
   */
  after(received: number, closing: AbortSignal): EventSource {
    this.#events = this.#events.filter(({ id }) => id > received)
    const first = this.#events[0]?.id ?? this.#last + 1
    if (received + 1 !== first)
      throw new Refusal('CALL_FORGOTTEN', `the events after ${received} have been dropped`)
    let position = received
    let sent = 0
    let isOpen = true
    const over = { done: true, value: undefined } as const
    return {
      next: async () => {
        for (;;) {
          if (!isOpen || (sent >= SEGMENT_BYTES && !closing.aborted)) return over
          // Ids are consecutive.
          const ready = this.#events.slice(Math.max(0, position - this.#last + this.#events.length))
          for (const { id, data } of ready) {
            position = id
            sent += sizeOf(data)
          }
          if (ready.length > 0) return { done: false, value: ready }
          if (this.#isOver) return over
          this.#pull ??= this.#receive()
          await this.#pull
        }
      },
      async return() {
        isOpen = false
        return over
      },
    }
  }

  /** Ends the source. */
  async end(): Promise<void> {
    this.#isOver = true
    this.#events = []
    await this.#source.return()
  }

  async #receive(): Promise<void> {
    try {
      const { done, value = [] } = await this.#source.next()
      if (done) this.#isOver = true
      this.#add(value)
    } catch (error) {
      this.#isOver = true
      this.#add([{ data: this.#failed(error) }])
    } finally {
      this.#pull = undefined
    }
  }

  #add(events: ServerEvent[]): void {
    for (const { data } of events) this.#events.push({ id: ++this.#last, data })
  }
}

/** About how many bytes an event has: those of its output. */
function sizeOf({ data = '' }: { data?: string | { base64: string } }): number {
  return typeof data === 'string' ? data.length : data.base64.length
}
