/**
 * Decodes slices of a log to events: text or bytes, each with the cursor after it.
 *
 * A character whose bytes arrive in two pieces appears whole, with the second piece. The cursor of the first piece still
 * points after all of its bytes. So a reader that continues there reads the bytes before the cursor again (`prime`), to
 * complete the character.
 */
import type { StringDecoder } from 'node:string_decoder'
import { stringDecoder } from '../../../base/builtin.js'
import { brokenLength } from '../../../base/utf8.js'
import type { NativeLog } from '../../../boundary/index.js'
import type { Encoding, LogOutput } from '../../../calls/index.js'

const STDERR = 2

/** How far before a cursor a character may begin, allowing for a little of the other stream in between. */
export const LOOK_BACK_BYTES = 64

export class LogDecoder {
  readonly #decoders: { stdout: StringDecoder; stderr: StringDecoder } | undefined
  /** The streams whose next byte follows a gap, which may have split a character. */
  readonly #broken = new Set<'stdout' | 'stderr'>()
  /** The cursor after the last event. */
  #cursor: number
  #missing = 0

  constructor(encoding: Encoding, cursor: number) {
    this.#cursor = cursor
    if (encoding === 'utf8')
      this.#decoders = {
        stdout: new stringDecoder.StringDecoder('utf8'),
        stderr: new stringDecoder.StringDecoder('utf8'),
      }
  }

  /** Reads the bytes before the cursor, for a character that is complete only after it. */
  prime(before: NativeLog): void {
    for (const { stream, cursor, data } of before.pieces) {
      const known = data.subarray(0, Math.max(0, this.#cursor - cursor))
      this.#decoders?.[streamName(stream)].write(known)
    }
  }

  /** The events of the next slice. */
  write(log: NativeLog): LogOutput<Encoding>[] {
    const events: LogOutput<Encoding>[] = []
    for (const { stream, cursor, data, time } of log.pieces) {
      this.#skip(cursor)
      this.#cursor = cursor + data.length
      const type = streamName(stream)
      const output = this.#decoders === undefined ? data : this.#decoders[type].write(this.#whole(type, data))
      if (output.length > 0) events.push(this.#event(type, output, time))
    }
    this.#skip(log.next)
    return events
  }

  /** The remains of characters that were never completed, when the log has ended. */
  end(time: number): LogOutput<Encoding>[] {
    const { stdout, stderr } = this.#decoders ?? {}
    const rests = [
      { type: 'stdout', text: stdout?.end() ?? '' },
      { type: 'stderr', text: stderr?.end() ?? '' },
    ] as const
    return rests.filter(({ text }) => text !== '').map(({ type, text }) => this.#event(type, text, time))
  }

  /** How many bytes were missing since the last event. */
  takeMissing(): number {
    const missing = this.#missing
    this.#missing = 0
    return missing
  }

  /** Skips bytes up to here, which no longer exist, and incomplete characters that began before them. */
  #skip(cursor: number): void {
    if (cursor <= this.#cursor) return
    this.#missing += cursor - this.#cursor
    this.#cursor = cursor
    this.#decoders?.stdout.end()
    this.#decoders?.stderr.end()
    for (const type of ['stdout', 'stderr'] as const) this.#broken.add(type)
  }

  /** Without the end of a character that began in a gap. */
  #whole(type: 'stdout' | 'stderr', data: Buffer): Buffer {
    return this.#broken.delete(type) ? data.subarray(brokenLength(data)) : data
  }

  #event(type: 'stdout' | 'stderr', data: string | Buffer, time: number): LogOutput<Encoding> {
    const missing = this.takeMissing()
    return { type, data, cursor: this.#cursor, time: new Date(time), ...(missing > 0 && { missing }) }
  }
}

/** The name of a stream by its number in the log. */
export function streamName(stream: number): 'stdout' | 'stderr' {
  return stream === STDERR ? 'stderr' : 'stdout'
}
