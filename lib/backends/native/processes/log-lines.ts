/**
 * Reads lines of a log.
 */
import { brokenLength } from '../../../base/utf8.js'
import type { NativeLogLines, NativeProcessRef } from '../../../boundary/index.js'
import type { Encoding, LogLine, LogLines, Output } from '../../../calls/index.js'
import type { LogLinesPlan } from '../../../requests/logs.js'
import { abortable, type Engine } from '../engine.js'

/** Of each line, see NativeLogLines. */
const STDERR = 1
const MATCH = 2
const CUT = 4
const OPEN = 8

export async function readLines(
  engine: Engine,
  process: NativeProcessRef,
  { encoding, signal, ...query }: LogLinesPlan,
): Promise<LogLines<Encoding>> {
  const logLines = await abortable(engine, 'the search', signal, (native, id) =>
    native.logLines(id, process, query),
  )
  const { total, first, matches = null, next = null } = logLines
  return { lines: linesOf(logLines, encoding), total, first, matches, next }
}

/** The lines, as strings or bytes. */
export function linesOf<E extends Encoding>(
  { data, ends, numbers, flags }: NativeLogLines,
  encoding: E,
): LogLine<E>[] {
  return numbers.map((number, index) => {
    const flag = flags[index] ?? 0
    const bytes = data.subarray(ends[index - 1] ?? 0, ends[index])
    // A character at the beginning may have lost its first byte.
    const skipped = flag & CUT ? brokenLength(bytes) : 0
    const text = encoding === 'utf8' ? bytes.toString('utf8', skipped) : bytes
    return {
      number,
      stream: flag & STDERR ? 'stderr' : 'stdout',
      text: text as Output<E>,
      match: (flag & MATCH) !== 0,
      cut: (flag & CUT) !== 0,
      ended: (flag & OPEN) === 0,
    }
  })
}
