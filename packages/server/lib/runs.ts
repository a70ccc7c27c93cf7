/**
 * The commands that run for clients of `/v1/exec/stream`, by an id that only the client of each knows: for input, kill
 * and abort, which come over other connections.
 *
 * The id is made here and is the first event of the stream. So no request can refer to a run that the server has not
 * begun, and the order of arrival does not matter.
 */

import type { Encoding, ExecStream } from 'nacre'
import { crypto } from 'nacre/internal'
import { Refusal } from './failure.js'
import { InTurn } from './in-turn.js'

/** A run as requests control it. */
export interface RemoteRun {
  stream: ExecStream<Encoding>
  /** Writes to its input, one at a time: the command may never read, and its client may be gone by then. */
  inputs: InTurn
  abort: AbortController
}

/** How long, and how many, logs of runs that have ended are kept. */
const LOG_KEPT_MS = 60_000
const MOST_LOGS = 100

export class Runs {
  readonly #runs = new Map<string, RemoteRun>()
  /** The runs that have ended, with a log. The oldest is first. */
  readonly #logs = new Map<string, ExecStream<Encoding>>()

  /** Registers a run until it has ended. `start` gets the signal that aborts it. */
  add(start: (signal: AbortSignal) => ExecStream<Encoding>): { id: string; run: RemoteRun } {
    const id = crypto().randomUUID()
    const abort = new AbortController()
    const run = { stream: start(abort.signal), inputs: new InTurn(), abort }
    this.#runs.set(id, run)
    return { id, run }
  }

  /** Forgets a run that has ended, except for its log. */
  end(id: string, hasLog: boolean): void {
    const run = this.#runs.get(id)
    this.#runs.delete(id)
    if (run === undefined || !hasLog) return
    this.#logs.set(id, run.stream)
    setTimeout(() => this.#logs.delete(id), LOG_KEPT_MS).unref()
    if (this.#logs.size > MOST_LOGS) {
      const [oldest = ''] = this.#logs.keys()
      this.#logs.delete(oldest)
    }
  }

  /** A run whose log can be read: one that runs, or has just ended. */
  log(id: string): ExecStream<Encoding> {
    return this.#logs.get(id) ?? this.get(id).stream
  }

  get(id: string): RemoteRun {
    const run = this.#runs.get(id)
    if (run === undefined) throw new Refusal('RUN_NOT_FOUND', 'there is no such run, or it has ended')
    return run
  }
}
