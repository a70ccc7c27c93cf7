/**
 * The commands that run for clients of `/v1/exec/stream`, by an id that only the client of each knows: for input, kill
 * and abort, which come over other connections.
 *
 * The id is made here and is the first event of the stream. So no request can refer to a run that the server has not
 * begun, and the order of arrival does not matter.
 */

import type { Encoding, ExecStream, Process, ProcessExit } from 'nacre'
import { clock, crypto, type Result } from 'nacre/internal'
import { exitOf } from 'nacre/internal/server'
import { Refusal } from './failure.js'
import { InTurn } from './in-turn.js'

/** A run as requests control it. */
export interface RemoteRun {
  stream: ExecStream<Encoding>
  /** Writes to its input, one at a time: the command may never read, and its client may be gone by then. */
  inputs: InTurn
  abort: AbortController
}

/** What is kept of a run that has ended. Its client may learn of the end later: it may not have read the output yet. */
interface EndedRun {
  exit: ProcessExit
  /** What the command has become because of `detachAfter`. */
  process: Process | undefined
  inputs: InTurn
}

/** What has the input of a command, and can be waited for. */
interface Target {
  target: ExecStream<Encoding> | Process
  inputs: InTurn
}

/** How long runs that have ended are kept, and how many of them. */
const KEPT_MS = 60_000
const MOST_ENDED = 10_000
const MOST_LOGS = 1000

export class Runs {
  readonly #runs = new Map<string, RemoteRun>()
  readonly #ended = new Kept<EndedRun>(MOST_ENDED)
  /** The runs that have ended, with a log. */
  readonly #logs = new Kept<ExecStream<Encoding>>(MOST_LOGS)

  /** Registers a run until it has ended. `start` gets the signal that aborts it. */
  add(start: (signal: AbortSignal) => ExecStream<Encoding>): { id: string; run: RemoteRun } {
    const id = crypto().randomUUID()
    const abort = new AbortController()
    const run = { stream: start(abort.signal), inputs: new InTurn(), abort }
    this.#runs.set(id, run)
    return { id, run }
  }

  /** To be called when a run has ended, with its result so far. */
  end(id: string, result: Result | undefined, hasLog: boolean): void {
    const { stream, inputs } = this.get(id)
    this.#runs.delete(id)
    this.#ended.add(id, { exit: exitOf(result), process: result?.process, inputs })
    if (hasLog) this.#logs.add(id, stream)
  }

  /** A run that runs, or has a log and has just ended. */
  log(id: string): ExecStream<Encoding> {
    return this.#logs.get(id) ?? this.get(id).stream
  }

  /** Whether {@link Runs.log} has the log of a run that has ended. */
  hasLog(id: string): boolean {
    return this.#logs.get(id) !== undefined
  }

  /** How a command has just ended. Undefined if it runs, or is a process. */
  exit(id: string): ProcessExit | undefined {
    const { exit, process } = this.#ended.get(id) ?? {}
    return process === undefined ? exit : undefined
  }

  /** A run that has not ended, or the process that its command has become. */
  target(id: string): Target {
    const { process, inputs } = this.#ended.get(id) ?? {}
    if (process !== undefined && inputs !== undefined) return { target: process, inputs }
    const run = this.get(id)
    return { target: run.stream, inputs: run.inputs }
  }

  /** The process that a command becomes now, or has become. */
  async detach(id: string): Promise<Process> {
    return this.#ended.get(id)?.process ?? this.get(id).stream.detach()
  }

  /** A run that has not ended. */
  get(id: string): RemoteRun {
    const run = this.#runs.get(id)
    if (run === undefined) throw new Refusal('RUN_NOT_FOUND', 'there is no such run, or it has ended')
    return run
  }
}

/** Values that are kept for a time. */
class Kept<T> {
  /** The oldest is first. */
  readonly #values = new Map<string, T>()
  readonly #most: number

  constructor(most: number) {
    this.#most = most
  }

  add(id: string, value: T): void {
    this.#values.set(id, value)
    clock.setTimeout(() => this.#values.delete(id), KEPT_MS).unref()
    if (this.#values.size > this.#most) {
      const [oldest = ''] = this.#values.keys()
      this.#values.delete(oldest)
    }
  }

  get(id: string): T | undefined {
    return this.#values.get(id)
  }
}
