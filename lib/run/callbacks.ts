/**
 * The callbacks of exec: output as text or as lines, and what happens to what they throw.
 */

import { PieceDecoder } from '../base/utf8.js'
import { STDERR, STDOUT } from '../options/stream.js'
import type { sessionExecOptions } from '../protocol/exec-options.js'
import type { OptionValues } from '../protocol/option.js'
import { LineSplitter } from './lines.js'
import type { RunObserver } from './run.js'

type Values = OptionValues<typeof sessionExecOptions>

/** The callbacks of one exec. */
export type ExecCallbacks = Pick<
  Values,
  'onStart' | 'onOutput' | 'onStdout' | 'onStderr' | 'onLine' | 'onComplete' | 'onError'
>

/** The callbacks among checked options. */
export function callbacksOf(values: Values): ExecCallbacks {
  const { onStart, onOutput, onStdout, onStderr, onLine, onComplete, onError } = values
  return { onStart, onOutput, onStdout, onStderr, onLine, onComplete, onError }
}

/** Whether one of them is called while the command runs. */
export function areLive({ onStart, onOutput, onStdout, onStderr, onLine }: ExecCallbacks): boolean {
  return (onStart ?? onOutput ?? onStdout ?? onStderr ?? onLine) !== undefined
}

/** What callbacks are called about. */
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
  readonly #onOutput: Values['onOutput']
  readonly #onText: Values['onStdout']
  readonly #onLine: Values['onLine']
  readonly #decoder = new PieceDecoder()
  readonly #splitter = new LineSplitter()

  constructor(
    name: 'stdout' | 'stderr',
    onOutput: Values['onOutput'],
    onText: Values['onStdout'],
    onLine: Values['onLine'],
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
    for (const line of lines) this.#onLine?.(this.#name, line)
  }
}
