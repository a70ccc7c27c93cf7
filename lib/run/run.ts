/**
 * One run of a command on any backend: what it reports, and how it is controlled.
 */
import type * as api from '../calls/index.js'
import type { CallsOf } from '../protocol/endpoint.js'
import type { processCalls } from '../protocol/simple-calls.js'
import type { CommandKill } from '../requests/logs.js'

/** The result of a run. */
export type Result = api.ExecResult<api.Encoding>

/** Receives what a run reports. An exception kills the command. */
export interface RunObserver {
  start(pid: number): void
  /**
   * `stream`: 1 is stdout, 2 is stderr. Returns true to keep the piece for later; the observer then returns its permit with
   * `StreamRun.giveBack`.
   */
  output(stream: number, data: Uint8Array): boolean
  /** Called after the last output. */
  end(): void
}

/** What is known of a run besides its events, as of a process. Its log is only there with `logLimit`. */
export type RunView = Pick<
  CallsOf<typeof processCalls, 'processId'>,
  'logs' | 'logLines' | 'waiting' | 'waitFor'
>

/** A run whose output is read while the command runs. */
export interface StreamRun {
  /** Settles like `exec`. */
  outcome: Promise<Result>
  /** Returns permits for more pieces of output. */
  giveBack(permits: number): void
  /** Kills the command. Resolves when it has ended: true if it was ended early. */
  kill(request: CommandKill): Promise<boolean>
  /** Writes to an open input. Resolves once the pipe took the data, or the command has ended. Rejects with INPUT_CLOSED. */
  write(data: Uint8Array): Promise<void>
  /** Closes an open input. No effect if it is already closed. */
  closeInput(): Promise<void>
  /** Sets the size of its terminal. False if it has none, or not yet. */
  resize(size: { cols: number; rows: number }): Promise<boolean>
  readonly view: RunView
  /** Makes the running command a process. From then on, its AbortSignal has no effect. */
  detach(): Promise<api.Process>
}
