/**
 * Starts a process and connects it to its input, its AbortSignal and its callbacks.
 */
import { onAbort, refuseAborted } from '../base/abort.js'
import { engineError, isCode } from '../base/errors.js'
import { report } from '../base/report.js'
import type { LogEvent, Logger } from '../calls/index.js'
import type { KillRequest } from '../requests/logs.js'
import type { ProcessRequest } from '../requests/process.js'
import { InputFeed } from './input.js'
import { readOutput, StreamCallbacks } from './output-callbacks.js'
import { callError } from './settle.js'
import { announceProcess } from './verbose.js'

/** What a started process must offer. */
export interface StartedProcess {
  readonly info: { id: string }
  kill(request: KillRequest): Promise<boolean>
  write(data: Uint8Array): Promise<void>
  closeInput(): Promise<void>
  watch(wantsOutput: boolean): AsyncIterable<LogEvent>
}

export interface Start<T extends StartedProcess> {
  request: ProcessRequest
  /** Its input, if that is read while it runs. */
  source: AsyncIterable<unknown> | undefined
  logger: Logger | undefined
  /** Starts the process and resolves once it runs. */
  launch(): Promise<T>
  /** Returns the object that onStart receives. */
  introduce(process: T): unknown
}

type Callbacks = ProcessRequest['callbacks']
type Printed = ReturnType<typeof announceProcess> | undefined

/** A kill with the signal and delay from the process's own options. */
export const AS_STARTED: KillRequest = { signal: undefined, forceKillAfterDelay: undefined }

/** The same for an abort, and for an exception of the caller's code. */
export const ABORTED: KillRequest = { ...AS_STARTED, by: 'abort' }

/**
 * Resolves once the process runs. Until then, an abort or an exception of onStart kills it and rejects.
 */
export async function startProcess<T extends StartedProcess>(start: Start<T>): Promise<T> {
  const { values, verbose, shown: command } = start.request
  const { signal } = values
  refuseAborted(signal, 'the process')
  const printed = verbose ? announceProcess(command) : undefined
  const feed = start.source && new InputFeed(start.source)
  try {
    const process = await start.launch()
    const shown = start.introduce(process)
    try {
      refuseAborted(signal, 'the process')
      start.request.callbacks.onStart?.(shown)
      refuseAborted(signal, 'the process')
    } catch (error) {
      await process.kill(ABORTED)
      throw error
    }
    attach(process, start, feed, printed)
    return process
  } catch (error) {
    printed?.failed(error)
    void feed?.close()
    throw error
  }
}

/** Connects a running process to its AbortSignal and callbacks, and to its input if that has a feed. */
export function attach(
  process: StartedProcess,
  start: Pick<Start<StartedProcess>, 'request' | 'logger'>,
  feed?: InputFeed,
  printed?: Printed,
): void {
  const { request, logger } = start
  const { callbacks, values } = request
  const stop = () => void process.kill(ABORTED).catch(() => {})
  const release = onAbort(values.signal, stop)
  const fail = (error: unknown) => {
    reportError(callbacks, logger, error)
    stop()
  }
  let isHeld = false
  // A process may stop reading its input. Any other failure kills it, since it would wait for input forever.
  const refuse = (error: unknown) => {
    // Over HTTP, another caller may take over the input meanwhile: the process lives on without the rest.
    if (isCode(error, 'HELD')) {
      // What was on its way when the feed was closed is refused, too.
      if (!isHeld) reportError(callbacks, logger, error, restLost(process.info.id))
      isHeld = true
    } else if (!isCode(error, 'INPUT_CLOSED', 'PROCESS_NOT_FOUND', 'SANDBOX_DESTROYED')) throw error
    void feed?.close()
  }
  void feed?.feed({
    write: (data) => process.write(data).catch(refuse),
    closeInput: () => void process.closeInput().catch(refuse).catch(fail),
    fail,
  })
  const { onExit, onError } = callbacks
  const isIdle = (onExit ?? onError ?? values.signal ?? feed ?? printed) === undefined
  if (isIdle && !readOutput(callbacks)) return
  void observe(process, callbacks, logger, printed).finally(() => {
    release()
    void feed?.close()
  })
}

/** Calls the callbacks until the process has ended. After one throws, the output callbacks are not called again. */
async function observe(
  process: StartedProcess,
  callbacks: Callbacks,
  logger: Logger | undefined,
  printed: Printed,
): Promise<void> {
  const reads = readOutput(callbacks)
  const streams = {
    stdout: new StreamCallbacks('stdout', callbacks),
    stderr: new StreamCallbacks('stderr', callbacks),
  }
  const endLines = () => {
    streams.stdout.endLine()
    streams.stderr.endLine()
  }
  try {
    for await (const event of process.watch(reads)) {
      const isOutput = event.type !== 'exit'
      const passOn = () => {
        // Lines are not joined across a gap in the log.
        if (!isOutput || event.missing !== undefined) endLines()
        if (isOutput) streams[event.type].write(event.data)
      }
      if (reads && !attempt(callbacks, logger, passOn))
        return observe(process, withoutOutput(callbacks), logger, printed)
      if (isOutput) continue
      printed?.ended(process.info.id, event)
      attempt(callbacks, logger, () => callbacks.onExit?.(event.exitCode, event.signal))
      if (event.reason === null) {
        const lost = engineError('ENGINE_ERROR', `process '${process.info.id}' was lost`)
        reportError(callbacks, logger, lost)
      }
    }
  } catch (error) {
    // The caller has destroyed the sandbox, so there is nothing left to report.
    if (!isCode(error, 'SANDBOX_DESTROYED')) reportError(callbacks, logger, error)
  }
}

function withoutOutput({ onStart, onExit, onError }: Callbacks): Callbacks {
  const none = undefined
  return { onStart, onExit, onError, onOutput: none, onStdout: none, onStderr: none, onLine: none }
}

/** Runs a callback and returns whether it succeeded. Its exception goes to onError, or to the logger without onError. */
function attempt(callbacks: Callbacks, logger: Logger | undefined, call: () => unknown): boolean {
  try {
    call()
    return true
  } catch (error) {
    reportError(callbacks, logger, error)
    return false
  }
}

/** `what` has happened, for the log. */
function reportError(
  callbacks: Callbacks,
  logger: Logger | undefined,
  error: unknown,
  what = 'a callback of a process threw',
): void {
  if (callbacks.onError !== undefined) callError(callbacks, logger, error)
  else report(logger, 'warn', `${what}: ${error}`)
}

/** What has happened to a process whose input another caller holds. */
export function restLost(processId: string): string {
  return `process '${processId}' does not get the rest of its input`
}
