/**
 * One run of a command, wherever it is: what it says while it goes on, and what can be done to it.
 */
import type { Encoding, ExecResult } from '../public/index.js'

/** The result of a run. */
export type Result = ExecResult<Encoding>

/** Hears about a run while it goes on. May throw, which kills the command. */
export interface RunObserver {
  start(pid: number): void
  /**
   * `stream`: 1 is stdout, 2 is stderr. True when the observer keeps the piece for later and will give its permit back
   * by `StreamRun.giveBack` itself.
   */
  output(stream: number, data: Uint8Array): boolean
  /** After the last output. */
  end(): void
}

/** A run whose output is handed out while it goes on. */
export interface StreamRun {
  /** What exec would have given. */
  outcome: Promise<Result>
  /** Permits for more pieces of output. */
  giveBack(permits: number): void
  /** Kills the command; null is its `killSignal`. Resolves when it is gone: true when it ended early. */
  kill(signal: number | null): Promise<boolean>
}
