/**
 * One run of a command on any backend: what it reports while it runs, and how it is controlled.
 */
import type { Encoding, ExecResult } from '../public/index.js'

/** The result of a run. */
export type Result = ExecResult<Encoding>

/** Receives what a run reports. An exception kills the command. */
export interface RunObserver {
  start(pid: number): void
  /**
   * `stream`: 1 is stdout, 2 is stderr. Returns true to keep the piece for later; the observer then returns its permit
   * by `StreamRun.giveBack`.
   */
  output(stream: number, data: Uint8Array): boolean
  /** After the last output. */
  end(): void
}

/** A run whose output is handed out while the command runs. */
export interface StreamRun {
  /** Settles as `exec` would. */
  outcome: Promise<Result>
  /** Permits for more pieces of output. */
  giveBack(permits: number): void
  /** Kills the command; null is its `killSignal`. Resolves when it has ended: true when it was ended early. */
  kill(signal: number | null): Promise<boolean>
}
