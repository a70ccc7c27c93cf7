/**
 * The callbacks of exec, as an observer of the run.
 */

import { PieceDecoder } from '../base/utf8.js'
import { areLive, type ExecCallbacks } from '../requests/exec.js'
import { STDERR } from '../requests/source.js'
import { StreamCallbacks } from './output-callbacks.js'
import type { RunObserver } from './run.js'

/** The callbacks of a run, and what onStart receives. */
export interface CallbackPlan {
  callbacks: ExecCallbacks
  /** The command as displayed. */
  shown: string
  sessionId: string
}

/** Feeds the live callbacks; undefined if there are none. */
export function callbackObserver({ callbacks, shown, sessionId }: CallbackPlan): RunObserver | undefined {
  if (!areLive(callbacks)) return undefined
  const stdout = new Decoded(new StreamCallbacks('stdout', callbacks))
  const stderr = new Decoded(new StreamCallbacks('stderr', callbacks))
  return {
    start(pid) {
      callbacks.onStart?.({ command: shown, pid, sessionId })
    },
    output(stream, data) {
      if (stream === STDERR) stderr.write(data)
      else stdout.write(data)
      return false
    },
    end() {
      stdout.end()
      stderr.end()
    },
  }
}

/** The callbacks of one stream, with its own decoder. */
class Decoded {
  readonly #callbacks: StreamCallbacks
  readonly #decoder = new PieceDecoder()

  constructor(callbacks: StreamCallbacks) {
    this.#callbacks = callbacks
  }

  write(data: Uint8Array): void {
    this.#callbacks.write(this.#decoder.write(data))
  }

  end(): void {
    this.#callbacks.write(this.#decoder.end())
    this.#callbacks.endLine()
  }
}
