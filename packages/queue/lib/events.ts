/**
 * What a worker does, for its metrics, its logger and subscribers of the diagnostics channel `nacre:worker`.
 */
import { channel } from 'node:diagnostics_channel'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'
import type { JobWorkerMetrics } from './public.js'

/** Each event counts in the metric of its name. */
export type WorkerEventName = Exclude<keyof JobWorkerMetrics, 'running'>

/** What subscribers receive. */
export interface WorkerEvent {
  event: WorkerEventName
  queue: string
  host: string
  /** The id of the BullMQ job. */
  id: string
  attempt?: number
  /** Why an attempt failed, or the host that an event is about. */
  detail?: string
}

const worker = channel('nacre:worker')

const WORDS: Record<WorkerEventName, string> = {
  started: 'started',
  attached: 'attached to',
  completed: 'completed',
  failed: 'failed',
  stalled: 'BullMQ took for stalled',
  handedOver: 'passed on to its host',
  lost: 'reported as lost',
}

export class WorkerEvents {
  readonly counts: Record<WorkerEventName, number> = {
    started: 0,
    attached: 0,
    completed: 0,
    failed: 0,
    stalled: 0,
    handedOver: 0,
    lost: 0,
  }
  readonly #about: { queue: string; host: string }
  readonly #logger: Logger | undefined

  constructor(about: { queue: string; host: string }, logger: Logger | undefined) {
    this.#about = about
    this.#logger = logger
  }

  emit(event: WorkerEventName, id: string, attempt?: number, detail?: string): void {
    this.counts[event]++
    const place = attempt === undefined ? id : `${id}, attempt ${attempt}`
    report(this.#logger, 'info', `${WORDS[event]} ${place}${detail === undefined ? '' : `: ${detail}`}`)
    if (!worker.hasSubscribers) return
    worker.publish({
      event,
      ...this.#about,
      id,
      ...(attempt !== undefined && { attempt }),
      ...(detail !== undefined && { detail }),
    } satisfies WorkerEvent)
  }

  /** What repairs itself. */
  warn(doing: string, error: unknown): void {
    report(this.#logger, 'warn', `${doing}: ${textOf(error)}`)
  }

  error(doing: string, error: unknown): void {
    report(this.#logger, 'error', `${doing}: ${textOf(error)}`)
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
