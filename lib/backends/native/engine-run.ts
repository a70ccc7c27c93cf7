/**
 * One run of a command on this side of the boundary: from the request to its last event.
 *
 * It records how the run ended; `result.ts` decides what that means. An exception of the observer is kept and kills the
 * command. It never reaches the addon, where it would become an uncaught exception of the host.
 */

import { deferred } from '../../base/deferred.js'
import { engineError } from '../../base/errors.js'
import type {
  NativeEvent,
  NativeKilledBy,
  NativeProcess,
  NativeProcessRef,
  NativeResult,
  NativeSandbox,
} from '../../boundary/index.js'
import type { Process } from '../../calls/index.js'
import type { CommandKill } from '../../requests/logs.js'
import type { RunObserver } from '../../run/run.js'
import type { Engine, PendingCall } from './engine.js'
import type { NativeExec } from './plan/exec.js'

/** How a run ended. */
export interface RunEnd {
  result?: NativeResult
  /** Set if the engine failed during the run; `result` is then the result so far. */
  error?: { code: string | undefined; message: string | undefined }
  /** The first exception of the observer or the input. */
  thrown?: { value: unknown }
  /** The pid of the shell, if the request asked for the start event. */
  pid?: number | undefined
  /** The process that the command has become; `result` is then the result so far. */
  process?: Process
}

export class Run {
  readonly ended: Promise<RunEnd>
  /** The process that the command can become, which also has its log. */
  readonly process: NativeProcessRef | undefined
  readonly #engine: Engine
  readonly #observer: RunObserver | undefined
  readonly #call: PendingCall
  #pending = true
  #thrown: RunEnd['thrown']
  #pid: number | undefined

  /** Starts the run immediately. Throws the errors of `Engine.begin`. */
  constructor(engine: Engine, request: NativeExec, observer: RunObserver | undefined) {
    this.#engine = engine
    this.#observer = observer
    const { promise, resolve } = deferred<RunEnd>()
    this.ended = promise
    let number: number | undefined
    this.#call = engine.run(
      (native, id) => {
        const sent = send(native, id, request)
        if (typeof sent === 'object') return sent ?? undefined
        number = sent
        return undefined
      },
      (event) => this.#receive(event, resolve),
    )
    const { process } = request.extras ?? {}
    if (process === undefined || number === undefined) return
    this.process = { processId: process.processId, number }
    keepCommand(engine, this, this.process, process.keepsLog)
  }

  /** The id of its call. */
  get id(): number {
    return this.#call.id
  }

  /** Whether the command has not ended. */
  get isPending(): boolean {
    return this.#pending
  }

  /** Ends the command: a queued command never runs, a running command is killed. No effect after the end. */
  interrupt(): void {
    this.#stop({ by: 'abort' })
  }

  /** Ends the command for the holder of its stream: the outcome is then a result, not an error. */
  kill({ signal, reason }: CommandKill): void {
    this.#stop({ by: 'caller', reason }, signal)
  }

  /** Ends the command because of an exception in the caller's code. Only the first exception is kept. */
  fail(value: unknown): void {
    this.#thrown ??= { value }
    this.interrupt()
  }

  /**
   * Writes to standard input. Resolves once the pipe took the data, or the command has ended. Rejects with INPUT_CLOSED if
   * the command had ended before, or its input is closed.
   */
  async write(data: Uint8Array): Promise<void> {
    if (!this.#pending) throw engineError('INPUT_CLOSED', 'the command has ended')
    await this.#engine.call((native, writeId) => native.write(this.#call.id, writeId, data))
  }

  /** Sends end of file to the command. No effect if its input is already closed. */
  closeInput(): void {
    if (this.#pending) this.#call.native.closeInput(this.#call.id)
  }

  /**
   * Makes the running command a process. `adopt` receives it while the event is handled. With `endsCall` the run ends now,
   * with its result so far.
   */
  detach<T>(endsCall: boolean, adopt: (process: NativeProcess) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#engine.begin(
        (native, id) => native.detach(id, this.#call.id, endsCall),
        (event) => {
          if (event.kind === 'error') reject(engineError(event.code, event.message))
          else resolve(adopt(event.value))
        },
      )
    })
  }

  /** Returns permits of pieces that the observer kept. */
  giveBack(permits: number): void {
    if (this.#pending && permits > 0) this.#call.native.credit(this.#call.id, permits)
  }

  /** The first call counts. */
  #stop(by: NativeKilledBy, signal: number | null = null): void {
    if (this.#pending) this.#call.native.interrupt(this.#call.id, signal, by)
  }

  #receive(event: NativeEvent, resolve: (end: RunEnd) => void): void {
    if (event.kind === 'start') {
      this.#pid = event.pid
      this.#notify((observer) => observer.start(event.pid))
    } else if (event.kind === 'output') {
      const isKept = this.#notify((observer) => observer.output(event.stream, event.data))
      if (!isKept) this.giveBack(1)
    } else if (event.kind === 'result' || event.kind === 'error') {
      this.#notify((observer) => observer.end())
      this.#pending = false
      const error = event.kind === 'error' ? { code: event.code, message: event.message } : undefined
      resolve({ result: event.result, error, thrown: this.#thrown, pid: this.#pid })
    }
  }

  /** Calls the observer, unless it has already thrown. */
  #notify<T>(call: (observer: RunObserver) => T): T | undefined {
    if (this.#observer === undefined || this.#thrown !== undefined) return undefined
    try {
      return call(this.#observer)
    } catch (error) {
      this.fail(error)
      return undefined
    }
  }
}

/** The commands whose logs are kept as long as their runs are. */
const kept = new FinalizationRegistry<() => void>((forget) => forget())

/** Lets the engine forget a command: when it has ended or, with a log, when nothing can read that any more. */
function keepCommand(engine: Engine, run: Run, { number }: NativeProcessRef, keepsLog: boolean): void {
  const forget = () => engine.release((native) => native.forgetCommand(number))
  if (keepsLog) kept.register(run, forget)
  else void run.ended.then(forget)
}

/** Returns the number of the process that the command can become, or its last event, if it has ended. */
function send(native: NativeSandbox, id: number, request: NativeExec): number | NativeEvent | null {
  const { sessionId, text, timeout, killSignal, forceKillAfterDelay, maxBuffer, encoding, extras } = request
  const asText = encoding === 'utf8'
  return native.exec(id, sessionId, text, timeout, killSignal, forceKillAfterDelay, maxBuffer, asText, extras)
}
