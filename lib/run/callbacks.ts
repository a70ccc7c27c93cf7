/**
 * The callbacks of exec: output as text or as lines, and what happens to what they throw.
 */

import { PieceDecoder } from '../base/utf8.js'
import { areLive, type ExecCallbacks } from '../requests/exec.js'
import { STDERR, STDOUT } from '../requests/source.js'
import { LineSplitter } from './lines.js'
import type { RunObserver } from './run.js'

type Callback<Name extends keyof ExecCallbacks> = ExecCallbacks[Name]

/** The callbacks of a run, and what onStart reports. */
export interface CallbackPlan {
  callbacks: ExecCallbacks
  /** The command as it is shown. */
  shown: string
  sessionId: string
}

/** Feeds the callbacks that are live; undefined when the plan has none. */
export function callbackObserver({ callbacks, shown, sessionId }: CallbackPlan): RunObserver | undefined {
  if (!areLive(callbacks)) return undefined
  const { onStart, onOutput, onLine } = callbacks
  const stdout = new StreamCallbacks('stdout', onOutput, callbacks.onStdout, onLine)
  const stderr = new StreamCallbacks('stderr', onOutput, callbacks.onStderr, onLine)
  const streams = new Map([
    [STDOUT, stdout],
    [STDERR, stderr],
  ])
  return {
    start(pid) {
      onStart?.({ command: shown, pid, sessionId })
    },
    output(stream, data) {
      streams.get(stream)?.write(data)
      return false
    },
    end() {
      stdout.end()
      stderr.end()
    },
  }
}

/** The callbacks of one stream, which has decoders of its own. */
class StreamCallbacks {
  readonly #name: 'stdout' | 'stderr'
  readonly #onOutput: Callback<'onOutput'>
  readonly #onText: Callback<'onStdout'>
  readonly #onLine: Callback<'onLine'>
  readonly #decoder = new PieceDecoder()
  readonly #splitter = new LineSplitter()

  constructor(
    name: 'stdout' | 'stderr',
    onOutput: Callback<'onOutput'>,
    onText: Callback<'onStdout'>,
    onLine: Callback<'onLine'>,
  ) {
    this.#name = name
    this.#onOutput = onOutput
    this.#onText = onText
    this.#onLine = onLine
  }

  write(data: Uint8Array): void {
    this.#emit(this.#decoder.write(data))
    if (this.#onLine !== undefined) this.#emitLines(this.#splitter.write(data))
  }

  end(): void {
    this.#emit(this.#decoder.end())
    this.#emitLines(this.#splitter.end())
  }

  #emit(text: string): void {
    if (text === '') return
    this.#onOutput?.(this.#name, text)
    this.#onText?.(text)
  }

  #emitLines(lines: readonly string[]): void {
    for (const line of lines) this.#onLine?.(line, this.#name)
  }
}
