/**
 * The bounds on a command's output that the server holds for one connection.
 *
 * Unsent output is in three places: pieces that the engine has sent and the response has not taken, the piece that the
 * response is being written from, and the result. All three are bounded here. If the client does not read, the response
 * takes no more, the engine stops reading the pipe, and in the end the command blocks.
 */

import type { Command, Encoding, ExecEvent, ExecOptions, ExecStream } from 'nacre'
import { OptionError, plans, type Result } from 'nacre/internal'
import { type backends, openStream, runToEnd } from 'nacre/internal/server'

/** Pieces of at most 256 KiB: 1 MiB. In this process it may be more, since there the reader is the caller itself. */
const WINDOW = 4

/**
 * Bytes of each stream in the result, unless the request has `maxBuffer`. The client has had all of the output by then,
 * so this only fills memory: for each connection, for as long as the command runs.
 */
const MAX_BUFFER_BYTES = 1024 * 1024

/**
 * Bytes of each stream in the result of exec, unless the request has `maxBuffer`. The reply is one JSON text: it is in
 * memory as a whole, and larger than the output.
 */
const MAX_REPLY_BUFFER_BYTES = 16 * 1024 * 1024

/** The largest `maxBuffer` of a request. The bytes of both streams, in order and apart, still fit into one string. */
export const MOST_MAX_BUFFER_BYTES = 64 * 1024 * 1024

/** Most bytes of a job's output in one event. */
export const MOST_EVENT_BYTES = 1024 * 1024

interface ConnectionOptions {
  /** Whether the result keeps as much output as that of exec. */
  wholeResult?: boolean | undefined
  /** Whether output events have bytes, whatever the encoding. */
  byteEvents?: boolean | undefined
  /** The caller's hold on the session. */
  hold?: string | undefined
}

/** Runs a command whose result is one reply. */
export async function runToReply(
  backend: backends.Backend,
  command: Command,
  options: ExecOptions<Encoding, boolean>,
  hold?: string,
): Promise<Result> {
  refuseLargeResult(options)
  const bounds = { maxBuffer: MAX_REPLY_BUFFER_BYTES }
  return runToEnd(backend, { ...plans.readExec(command, options, 'exec'), bounds, hold })
}

/** Starts a command whose output goes to a connection. */
export function streamToConnection<E extends Encoding>(
  backend: backends.Backend,
  command: Command,
  options: ExecOptions<E, boolean>,
  { wholeResult = false, byteEvents, hold }: ConnectionOptions = {},
): ExecStream<E> {
  refuseLargeResult(options)
  const maxBuffer = wholeResult ? MAX_REPLY_BUFFER_BYTES : MAX_BUFFER_BYTES
  const bounds = { window: WINDOW, maxBuffer, byteEvents }
  return openStream(backend, { ...plans.readExec(command, options, 'execStream'), wholeResult, bounds, hold })
}

/**
 * The events of a stream whose result is awaited, too. Reading begins now: the stream of a quick command would drop its
 * output before the connection asks for the first event.
 */
export function eventsOf<E extends Encoding>(stream: ExecStream<E>): AsyncIterator<ExecEvent<E>, unknown> {
  const values = stream[Symbol.asyncIterator]()
  let first: Promise<IteratorResult<ExecEvent<E>, unknown>> | undefined = values.next()
  first.catch(() => {})
  return {
    next() {
      const step = first ?? values.next()
      first = undefined
      return step
    },
    async return() {
      await values.return?.()
      return { done: true, value: undefined }
    },
  }
}

function refuseLargeResult({ maxBuffer = 0 }: { maxBuffer?: number }): void {
  if (maxBuffer > MOST_MAX_BUFFER_BYTES)
    throw new OptionError(
      'INVALID_OPTION',
      `maxBuffer must be at most ${MOST_MAX_BUFFER_BYTES} bytes over HTTP, not ${maxBuffer}: read more output with execStream`,
    )
}
