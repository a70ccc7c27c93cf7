/**
 * Reads a log as a whole, or its end for messages.
 */

import { decodeText } from '../../../base/text.js'
import type { NativeProcessRef } from '../../../boundary/index.js'
import type { Encoding, Output, ProcessLogs } from '../../../calls/index.js'
import type { Engine } from '../engine.js'
import { LogDecoder } from './log-decoder.js'
import { LogReader } from './log-reader.js'

const STDERR = 2

/** Bytes of log that an error shows. */
const TAIL_BYTES = 4096

/** The output so far, by stream. */
export async function readWhole(
  engine: Engine,
  process: NativeProcessRef,
  encoding: Encoding,
): Promise<ProcessLogs<Encoding>> {
  const reader = new LogReader(engine, process, 0, 'awaited')
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  let missing = 0
  const end = await reader.end()
  while (reader.cursor < end) {
    const log = await reader.read()
    if (log === undefined) break
    for (const { stream, data } of log.pieces) (stream === STDERR ? stderr : stdout).push(data)
    missing += log.dropped + log.lost
  }
  const decode = async (pieces: Buffer[]): Promise<Output<Encoding>> => {
    const bytes = Buffer.concat(pieces)
    return encoding === 'utf8' ? decodeText(bytes) : bytes
  }
  const logs = { stdout: await decode(stdout), stderr: await decode(stderr) }
  return missing > 0 ? { ...logs, truncated: missing } : logs
}

/** The last lines of both streams in order of arrival; empty if they cannot be read. */
export async function readTail(engine: Engine, process: NativeProcessRef): Promise<string> {
  try {
    const reader = new LogReader(engine, process, 0, 'awaited')
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
