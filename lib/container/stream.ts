/**
 * A command in the background of a session, as a generator of events.
 *
 * It is a process with a log, so its pipes are emptied whether anybody reads or not, and reading follows the log at the
 * reader's own pace: nothing is in memory but the last megabyte. What it has not read yet is on disk, up to
 * BACKLOG_BYTES; a gap is never passed over in silence.
 */

import type { Engine } from '../backends/native/engine.js'
import { isOver, type ProcessHandle } from '../backends/native/processes/handle.js'
import { LogStream } from '../backends/native/processes/log-stream.js'
import { planLogStream } from '../options/logs.js'
import type { ExecEvent } from '../public/container.js'
import { hasCode } from './errors.js'
import {
  endEvent,
  errorEvent,
  outputEvent,
  refusedDirectoryEvents,
  type Subject,
  startEvent,
} from './events.js'

/** 1 GiB: how far a reader may be behind. */
export const BACKLOG_BYTES = 1024 ** 3

/** A command that is being started. */
export interface Background {
  subject: Subject
  /** By the clock of `performance.now()`. */
  begun: number
  cwd: string | undefined
  engine: Engine
  starting: Promise<ProcessHandle>
  /** What to tell instead of an error of nacre. */
  explain(error: unknown): unknown
  /** Throws when the session was destroyed: an end that comes from that is no end of the command's own. */
  check(): void
}

/**
 * A class around the generator, as the `return()` of a plain one would wait behind a `next()` that waits for output, of
 * `tail -f` for ever. This one ends the command first, and with it the wait.
 */
export class CommandStream implements AsyncGenerator<ExecEvent, void, undefined> {
  readonly #events: AsyncGenerator<ExecEvent, void, undefined>
  #background: Background | undefined

  /** Nothing is checked or started before the first `next`, as with any generator. */
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
    const handle = await this.#background?.starting.catch(() => undefined)
    if (handle !== undefined) await end(handle)
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
  const { subject, cwd, engine, starting, explain } = background
  let handle: ProcessHandle
  try {
    handle = await starting
  } catch (error) {
    if (hasCode(error, 'CWD_NOT_FOUND') && cwd !== undefined) yield* refusedDirectoryEvents(subject, cwd)
    else yield errorEvent(explain(error))
    return
  }
  // From now on: it may have ended long before its output has been read.
  const duration = handle.ended.then(() => performance.now() - background.begun)
  let last: ExecEvent
  try {
    yield startEvent(subject, handle.state.pid)
    last = yield* output(background, handle, duration)
  } finally {
    // Before the last event is given: many readers do not ask for what comes after it.
    await end(handle)
    forget(engine, handle)
  }
  yield last
}

/** The output, and then the last event as the value of the generator. */
async function* output(
  { subject, engine, explain, check }: Background,
  handle: ProcessHandle,
  duration: Promise<number>,
): AsyncGenerator<ExecEvent, ExecEvent, undefined> {
  try {
    for await (const event of new LogStream(engine, () => handle, planLogStream({}, 'execStream'))) {
      if (event.missing !== undefined) {
        // What followed would only look complete.
        return errorEvent(`${event.missing} bytes of output were lost before they were read`)
      }
      if (event.type === 'exit') break
      yield outputEvent(event)
    }
    check()
    return endEvent(subject, await handle.ended, await duration)
  } catch (error) {
    return errorEvent(explain(error))
  }
}

/** Ends what still runs. When the session is being destroyed, that does it. */
async function end(handle: ProcessHandle): Promise<void> {
  if (isOver(handle.state)) return
  try {
    await handle.kill(handle.killDefaults)
  } catch (error) {
    if (!hasCode(error, 'SANDBOX_DESTROYED', 'SESSION_DESTROYED', 'PROCESS_NOT_FOUND')) throw error
  }
}

/** The log has been read, or nobody will. */
function forget(engine: Engine, handle: ProcessHandle): void {
  try {
    engine.ask((native) => native.cleanUpProcesses(handle.id))
  } catch (error) {
    if (!hasCode(error, 'SANDBOX_DESTROYED')) throw error
  }
}
