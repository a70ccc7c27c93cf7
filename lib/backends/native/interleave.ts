/**
 * Merges stdout and stderr in order of arrival, for `all`.
 *
 * `order` holds the lengths in bytes of the alternating runs stdout, stderr, stdout, ... Bytes that it does not cover are
 * appended, so that nothing is ever lost.
 */
import { stringDecoder } from '../../base/builtin.js'
import type { Omission } from '../../base/omission.js'

const { StringDecoder } = stringDecoder

/** Merges the bytes of both streams. */
export function interleaveBytes(stdout: Uint8Array, stderr: Uint8Array, order: Uint32Array): Buffer {
  const streams = [stdout, stderr]
  const offsets = [0, 0]
  const runs: Uint8Array[] = []
  eachRun(order, (stream, length) => {
    const start = offsets[stream] ?? 0
    offsets[stream] = start + length
    const run = streams[stream]?.subarray(start, start + length)
    if (run !== undefined) runs.push(run)
  })
  runs.push(stdout.subarray(offsets[0]), stderr.subarray(offsets[1]))
  return Buffer.concat(runs)
}

/**
 * Merges the text of both streams.
 *
 * Text with as many units as bytes is cut at the same offsets. Otherwise the bytes are decoded, each stream by itself: a
 * character split over two runs appears where it was completed.
 */
export function interleaveText(stdout: StreamText, stderr: StreamText, order: Uint32Array): string {
  const total = [0, 0]
  eachRun(order, (stream, length) => {
    total[stream] = (total[stream] ?? 0) + length
  })
  const cutters = [cutter(stdout, total[0]), cutter(stderr, total[1])]
  let text = ''
  eachRun(order, (stream, length) => {
    text += cutters[stream]?.take(length)
  })
  return text + cutters[0]?.rest() + cutters[1]?.rest()
}

/** One stream's text, and the bytes it was decoded from, if available. */
export interface StreamText {
  text: string
  bytes: Buffer | undefined
  omission?: Omission | undefined
}

interface Cutter {
  take(length: number): string
  rest(): string
}

function cutter({ text, bytes, omission }: StreamText, total: number | undefined): Cutter {
  if (bytes !== undefined && omission !== undefined) return omittingCutter(bytes, omission)
  let offset = 0
  if (text.length === total) {
    return {
      take(length) {
        const start = offset
        offset += length
        return text.slice(start, offset)
      },
      rest: () => text.slice(offset),
    }
  }
  const source = bytes ?? Buffer.from(text, 'utf8')
  const decoder = new StringDecoder('utf8')
  return {
    take(length) {
      const start = offset
      offset += length
      return decoder.write(source.subarray(start, offset))
    },
    rest: () => decoder.end(source.subarray(offset)),
  }
}

/** Replaces the omitted part with its marker. */
function omittingCutter(source: Buffer, { start, end, marker }: Omission): Cutter {
  const [head, tail] = [new StringDecoder('utf8'), new StringDecoder('utf8')]
  let offset = 0
  let isMarked = false
  const upTo = (until: number) => {
    let text = head.write(source.subarray(offset, Math.max(offset, Math.min(until, start))))
    if (!isMarked && until > start) {
      text += head.end() + marker
      isMarked = true
    }
    text += tail.write(source.subarray(Math.max(offset, end), Math.max(until, end)))
    offset = until
    return text
  }
  return {
    take: (length) => upTo(offset + length),
    rest: () => upTo(Math.max(source.length, start + 1)) + tail.end(),
  }
}

function eachRun(order: Uint32Array, visit: (stream: 0 | 1, length: number) => void): void {
  let stream: 0 | 1 = 0
  for (const length of order) {
    visit(stream, length)
    stream = stream === 0 ? 1 : 0
  }
}
