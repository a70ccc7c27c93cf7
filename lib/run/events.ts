/**
 * The events of a stream: the start, each piece of output as text or bytes, and the end.
 */

import { MOST_TEXT_BYTES, PieceDecoder } from '../base/utf8.js'
import type { Encoding, ExecEvent, SandboxError } from '../calls/index.js'
import { STDERR, STDOUT } from '../requests/source.js'
import type { Item, Outcome, Piece } from './feed.js'
import type { Translator } from './reader.js'

type Event = ExecEvent<Encoding>

/** What the events need to know about the command. */
export interface StreamPlan {
  /** The command as displayed. */
  shown: string
  sessionId: string
  encoding: Encoding
}

export class EventTranslator implements Translator<Event> {
  /** False: an error is the last event. */
  readonly throws = false
  readonly mostBytes: number
  readonly #plan: StreamPlan
  /** Decoders by stream, for text only. */
  readonly #decoders: Map<number, PieceDecoder>

  constructor(plan: StreamPlan) {
    this.#plan = plan
    const isText = plan.encoding === 'utf8'
    this.mostBytes = isText ? MOST_TEXT_BYTES : Number.POSITIVE_INFINITY
    const streams = isText ? [STDOUT, STDERR] : []
    this.#decoders = new Map(streams.map((stream) => [stream, new PieceDecoder()]))
  }

  translate(item: Item): Event[] {
    const time = new Date(item.time)
    switch (item.type) {
      case 'start':
        return [this.#start(item.pid, time)]
      case 'output':
        return this.#output(item, time)
      case 'end':
        return [...this.#cutCharacters(time), last(item, time)]
    }
  }

  #start(pid: number, time: Date): Event {
    const { shown, sessionId } = this.#plan
    return { type: 'start', time, command: shown, pid, sessionId }
  }

  /** Returns the output event. Bytes of an incomplete character wait for the rest, and so does the cursor. */
  #output({ stream, data, end }: Piece, time: Date): Event[] {
    const decoder = this.#decoders.get(stream)
    if (decoder === undefined) return [output(stream, time, data, end)]
    const text = decoder.write(data)
    return text === '' ? [] : [output(stream, time, text, decoder.position)]
  }

  /** The remains of a stream that ended within a character. */
  #cutCharacters(time: Date): Event[] {
    return Array.from(this.#decoders).flatMap(([stream, decoder]) => {
      const text = decoder.end()
      return text === '' ? [] : [output(stream, time, text, decoder.position)]
    })
  }
}

function output(stream: number, time: Date, data: string | Uint8Array, cursor: number): Event {
  return { type: stream === STDERR ? 'stderr' : 'stdout', time, data, cursor }
}

function last(outcome: Outcome, time: Date): Event {
  if (outcome.result === undefined) return { type: 'error', time, error: outcome.error as SandboxError }
  const { exitCode, signal } = outcome.result
  return { type: 'complete', time, exitCode, signal, result: outcome.result }
}
