/**
 * The callbacks for output as text: by piece, by stream, and line by line.
 */
import type { ExecCallbacks } from '../requests/exec.js'
import { LineSplitter } from './lines.js'

export type OutputCallbacks = Pick<ExecCallbacks, 'onOutput' | 'onStdout' | 'onStderr' | 'onLine'>

/** Whether any output callback is set. */
export function readOutput({ onOutput, onStdout, onStderr, onLine }: OutputCallbacks): boolean {
  return (onOutput ?? onStdout ?? onStderr ?? onLine) !== undefined
}

/** Passes the text of one stream to the callbacks. */
export class StreamCallbacks {
  readonly #name: 'stdout' | 'stderr'
  readonly #callbacks: OutputCallbacks
  readonly #splitter = new LineSplitter()

  constructor(name: 'stdout' | 'stderr', callbacks: OutputCallbacks) {
    this.#name = name
    this.#callbacks = callbacks
  }

  write(text: string): void {
    if (text === '') return
    const { onOutput, onStdout, onStderr, onLine } = this.#callbacks
    onOutput?.(this.#name, text)
    if (this.#name === 'stdout') onStdout?.(text)
    else onStderr?.(text)
    if (onLine !== undefined) this.#emitLines(this.#splitter.write(text))
  }

  /** Emits an incomplete last line; later output does not continue it. */
  endLine(): void {
    this.#emitLines(this.#splitter.end())
  }

  #emitLines(lines: readonly string[]): void {
    for (const line of lines) this.#callbacks.onLine?.(line, this.#name)
  }
}
