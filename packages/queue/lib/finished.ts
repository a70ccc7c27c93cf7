/**
 * Waits for the ends of jobs, by BullMQ's stream of events.
 *
 * Events only wake: what has happened is read again. So an event that Redis has lost delays a wait, and nothing more.
 */
import { QueueEvents } from 'bullmq'
import type { Redis } from 'ioredis'
import type { Logger } from 'nacre'
import { aborts, clock, report } from 'nacre/internal'
import { connectAgain } from './redis.js'

/** Milliseconds until a wait looks again by itself. */
const LOOK_MS = 5000

/** What an event says about a job that may not be in the queue any more. */
export interface Ending {
  state: 'completed' | 'failed' | 'removed'
  returnvalue?: unknown
  failedReason?: string
}

export class FinishedEvents {
  readonly #events: QueueEvents
  readonly #redis: Redis
  readonly #waiting = new Map<string, Set<(ending: Ending | undefined) => void>>()

  private constructor(events: QueueEvents, redis: Redis) {
    this.#events = events
    this.#redis = redis
    events.on('completed', ({ jobId, returnvalue }) => this.#wake(jobId, { state: 'completed', returnvalue }))
    events.on('failed', ({ jobId, failedReason }) => this.#wake(jobId, { state: 'failed', failedReason }))
    events.on('removed', ({ jobId }) => this.#wake(jobId, { state: 'removed' }))
    events.on('active', ({ jobId }) => this.#wake(jobId, undefined))
  }

  /** Reads from the last event on, so that nothing is missed between the first look at a job and the first wait. */
  static async open(
    redis: Redis,
    { name, prefix, logger }: { name: string; prefix: string; logger: Logger | undefined },
  ): Promise<FinishedEvents> {
    const [last] = await redis.xrevrange(`${prefix}:${name}:events`, '+', '-', 'COUNT', 1)
    const connection = connectAgain(redis, logger)
    const events = new QueueEvents(name, { connection, prefix, lastEventId: last?.[0] ?? '0-0' })
    events.on('error', ({ message }) => report(logger, 'warn', `BullMQ: ${message}`))
    return new FinishedEvents(events, connection)
  }

  /** Begins to listen now; the function waits for an event about the job, for a while, or until `stop` is aborted. */
  listen(id: string): {
    next: (stop: AbortSignal, within?: number) => Promise<Ending | undefined>
    end: () => void
  } {
    let ending: Ending | undefined
    let woken = false
    let resolve = () => {}
    const wake = (found: Ending | undefined) => {
      ending = found ?? ending
      woken = true
      resolve()
    }
    const others = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, others.add(wake))
    return {
      next: async (stop, within = LOOK_MS) => {
        if (!woken) {
          let timer: NodeJS.Timeout | undefined
          const event = new Promise<void>((settle) => {
            resolve = settle
            timer = clock.setTimeout(settle, within)
          })
          await aborts.orAborted(event, stop)
          clock.clearTimeout(timer)
        }
        woken = false
        return ending
      },
      end: () => {
        others.delete(wake)
        if (others.size === 0 && this.#waiting.get(id) === others) this.#waiting.delete(id)
      },
    }
  }

  async close(): Promise<void> {
    await this.#events.close()
    this.#redis.disconnect()
  }

  #wake(id: string, ending: Ending | undefined): void {
    for (const wake of this.#waiting.get(id) ?? []) wake(ending)
  }
}
