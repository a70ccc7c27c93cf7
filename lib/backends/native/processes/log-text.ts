/**
 * Reads a log as a whole, or its end for messages.
 */

import { decodeText } from '../../../base/text.js'
import { brokenLength, incompleteLength } from '../../../base/utf8.js'
import type { NativeProcessRef } from '../../../boundary/index.js'
import type { Encoding, Output, ProcessLogs } from '../../../calls/index.js'
import type { Engine } from '../engine.js'
import type { ProcessHandle } from './handle.js'
import { LogDecoder, streamName } from './log-decoder.js'
import { LogReader } from './log-reader.js'

/** Bytes of log that an error shows. */
const TAIL_BYTES = 4096

/** The output so far, by stream. */
export async function readWhole(
  engine: Engine,
  process: NativeProcessRef,
  encoding: Encoding,
): Promise<ProcessLogs<Encoding>> {
  const reader = new LogReader(engine, process, 0, 'awaited')
  const streams = { stdout: new Text(), stderr: new Text() }
  let missing = 0
  let at = 0
  const end = await reader.end()
  while (reader.cursor < end) {
    const log = await reader.read(false)
    if (log === undefined) break
    for (const { stream, cursor, data } of log.pieces) {
      if (cursor > at) for (const text of Object.values(streams)) text.skip()
      at = cursor + data.length
      streams[streamName(stream)].add(data)
    }
    missing += log.dropped + log.lost
  }
  const decode = async (text: Text): Promise<Output<Encoding>> =>
    encoding === 'utf8' ? decodeText(text.whole()) : text.bytes()
  const logs = { stdout: await decode(streams.stdout), stderr: await decode(streams.stderr) }
  return missing > 0 ? { ...logs, truncated: missing } : logs
}

/** The bytes of a stream, with gaps. */
class Text {
  readonly #parts: Buffer[][] = [[]]

  add(piece: Buffer): void {
    this.#parts.at(-1)?.push(piece)
  }

  /** Here, bytes are missing. */
  skip(): void {
    this.#parts.push([])
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts.flat())
  }

  /** Without the characters that a gap has split. */
  whole(): Buffer {
    const parts = this.#parts.map((pieces) => Buffer.concat(pieces))
    const last = parts.length - 1
    const whole = parts.map((part, index) =>
      part.subarray(
        index === 0 ? 0 : brokenLength(part),
        index === last ? part.length : part.length - incompleteLength(part),
      ),
    )
    return whole.length === 1 ? (whole[0] as Buffer) : Buffer.concat(whole)
  }
}

/** The last lines of both streams in order of arrival; empty if they cannot be read. */
export async function readTail({ engine, ref }: ProcessHandle): Promise<string> {
  try {
    const reader = new LogReader(engine, ref, 0, 'awaited')
    const end = await reader.end()
    const start = Math.max(0, end - TAIL_BYTES)
    const log = await reader.peek(start, TAIL_BYTES)
    if (log === undefined) return ''
    const events = new LogDecoder('utf8', start).write(log)
    const text = events.map(({ data }) => data).join('')
    return start === 0 ? text : text.slice(text.indexOf('\n') + 1)
  } catch {
    // The process was forgotten, or the sandbox destroyed. This must not hide the error being reported.
    return ''
  }
}
