/**
 * A background command of a session, as a generator of events.
 *
 * It is a process with a log: its pipes are emptied even without a reader, and a reader follows the log at its own pace.
 * The last megabyte is in memory and the rest, up to BACKLOG_BYTES, on disk. Gaps are always reported.
 */

import type { NativeBackend } from '../backends/native/backend.js'
import type { LocalProcess } from '../backends/native/processes/process.js'
import { isCode } from '../base/errors.js'
import { performance } from '../base/timers.js'
import type { ExecEvent } from '../calls/container.js'
import { planLogStream } from '../requests/logs.js'
import { AS_STARTED } from '../run/start-process.js'
import {
  endEvent,
  errorEvent,
  outputEvent,
  refusedDirectoryEvents,
  type Subject,
  startEvent,
} from './events.js'

/** How far a reader may lag behind: 1 GiB. */
export const BACKLOG_BYTES = 1024 ** 3

/** A command that is being started. */
export interface Background {
  subject: Subject
  /** The start time by `performance.now()`. */
  begun: number
  cwd: string | undefined
  backend: NativeBackend
  starting: Promise<LocalProcess>
  /** The container's error for an error of nacre. */
  explain(error: unknown): unknown
  /** Throws if the session was destroyed, which is then why the command ended. */
  check(): void
}

/**
 * A class around the generator: the `return()` of a plain generator would wait behind a `next()` that waits for output,
 * with `tail -f` forever. This class kills the command first, which ends the wait.
 */
export class CommandStream implements AsyncGenerator<ExecEvent, void, undefined> {
  readonly #events: AsyncGenerator<ExecEvent, void, undefined>
  #background: Background | undefined

  /** Checks and starts nothing before the first `next`, like any generator. */
  constructor(begin: () => Background) {
    this.#events = this.#run(begin)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  next(): Promise<IteratorResult<ExecEvent, void>> {
    return this.#events.next()
  }

  async return(): Promise<IteratorResult<ExecEvent, void>> {
    const background = this.#background
    const process = await background?.starting.catch(() => undefined)
    if (background !== undefined && process !== undefined) await end(background, process)
    return this.#events.return()
  }

  async throw(error: unknown): Promise<never> {
    await this.return()
    throw error
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  async *#run(begin: () => Background): AsyncGenerator<ExecEvent, void, undefined> {
    this.#background = begin()
    yield* events(this.#background)
  }
}

async function* events(background: Background): AsyncGenerator<ExecEvent, void, undefined> {
  const { subject, cwd, backend, starting, explain } = background
  let process: LocalProcess
  try {
    process = await starting
  } catch (error) {
    if (isCode(error, 'CWD_NOT_FOUND') && cwd !== undefined) yield* refusedDirectoryEvents(subject, cwd)
    else yield errorEvent(explain(error))
    return
  }
  // Measured from here: the command may end long before its output has been read.
  const duration = process.handle.ended.then(() => performance.now() - background.begun)
  let last: ExecEvent
  try {
    yield startEvent(subject, process.info.pid)
    last = yield* output(background, process, duration)
  } finally {
    // Before the last event is yielded: many readers stop after it.
    await end(background, process)
    forget(backend, process)
  }
  yield last
}

/** Yields the output, then returns the last event. */
async function* output(
  { subject, explain, check }: Background,
  process: LocalProcess,
  duration: Promise<number>,
): AsyncGenerator<ExecEvent, ExecEvent, undefined> {
  try {
    for await (const event of process.output(planLogStream({}, 'execStream'))) {
      if (event.missing !== undefined) {
        check()
        // Output after a gap would only appear complete.
        return errorEvent(`${event.missing} bytes of output were lost before they were read`)
      }
      if (event.type === 'exit') break
      yield outputEvent(event)
    }
    check()
    return endEvent(subject, await process.handle.ended, await duration)
  } catch (error) {
    return errorEvent(explain(error))
  }
}

/** Kills the command if it is still running, and resolves once it has ended. */
async function end({ backend }: Background, process: LocalProcess): Promise<void> {
  try {
    await process.kill(AS_STARTED)
  } catch (error) {
    if (!isCode(error, 'SANDBOX_DESTROYED')) throw error
    // `destroy` kills the command. Every call returns the same promise.
    await backend.destroy()
  }
}

/** Drops the log, which is not read again. */
function forget(backend: NativeBackend, process: LocalProcess): void {
  try {
    backend.forgetProcess(process.info.id)
  } catch (error) {
    if (!isCode(error, 'SANDBOX_DESTROYED')) throw error
  }
}
