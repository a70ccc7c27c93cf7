/** What runs code for the interpreters. */
import type { Message } from '../http.js'

export interface Code {
  code: string
  env: Record<string, string>
}

/** Runs code in one language, one piece at a time, and keeps its state. */
export interface Kernel {
  /** Yields lines of JSON as `/execute` replies them. Aborting interrupts the code; what it printed until then still arrives. */
  run(code: Code, signal: AbortSignal): AsyncIterable<string>
  /** Loses the state. The next code starts anew. */
  end(): Promise<void>
  /** Whether a process has the state, which no pause can keep. */
  isInMemory(): boolean
  /** What the constructor needs to go on with the state after a pause, as JSON. */
  keep(): unknown
}

/** A line of the reply to `/execute`. */
export function line(value: { type: string } & Message): string {
  return `${JSON.stringify(value)}\n`
}
