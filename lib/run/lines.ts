/**
 * The lines of a stream's output, as text without line ends.
 *
 * A piece is decoded and split as a whole, then its lines are returned one by one. Each line costs one promise, so a
 * million short lines take a fraction of a second.
 */
import { engineError } from '../base/errors.js'
import { MOST_TEXT_BYTES, PieceDecoder } from '../base/utf8.js'
import type { Item } from './feed.js'
import type { Translator } from './reader.js'

const CARRIAGE_RETURN = 13
/** The longest string in V8; other engines allow longer strings. */
const MOST_CHARACTERS = 2 ** 29 - 24
const NONE: readonly string[] = []

export class LineTranslator implements Translator<string> {
  readonly throws = true
  readonly mostBytes = MOST_TEXT_BYTES
  readonly #streams: Map<number, { decoder: PieceDecoder; splitter: LineSplitter }>

  constructor(streams: readonly number[]) {
    this.#streams = new Map(
      streams.map((stream) => [stream, { decoder: new PieceDecoder(), splitter: new LineSplitter() }]),
    )
  }

  translate(item: Item): readonly string[] {
    if (item.type === 'output') {
      const stream = this.#streams.get(item.stream)
      return stream?.splitter.write(stream.decoder.write(item.data)) ?? NONE
    }
    if (item.type !== 'end') return NONE
    return Array.from(this.#streams.values()).flatMap(({ decoder, splitter }) => [
      ...splitter.write(decoder.end()),
      ...splitter.end(),
    ])
  }
}

/** Splits the text of one stream at `\n` and `\r\n`, wherever its pieces were cut. */
export class LineSplitter {
  /** The beginning of an incomplete line. */
  #begun = ''
  /** Whether `#begun` contains a \r. Searching the joined string itself would flatten it for each piece. */
  #begunHasReturn = false

  /** Returns the last line, if it has no line end. */
  end(): string[] {
    const line = this.#begun
    this.#begun = ''
    return line === '' ? [] : [line]
  }

  write(text: string): string[] {
    const lines = text.split('\n')
    const hasReturns = text.includes('\r')
    const mayHaveReturns = hasReturns || this.#begunHasReturn
    lines[0] = join(this.#begun, lines[0] ?? '')
    this.#begun = lines.pop() ?? ''
    this.#begunHasReturn = lines.length === 0 ? mayHaveReturns : hasReturns
    return mayHaveReturns ? lines.map(withoutReturn) : lines
  }
}

/** Strips the \r of a line that may have ended in `\r\n`. */
export function withoutReturn(line: string): string {
  return line.charCodeAt(line.length - 1) === CARRIAGE_RETURN ? line.slice(0, -1) : line
}

/** Joins two parts of a line. The runtime joins by reference, so a line of many pieces costs no more than its length. */
function join(begun: string, more: string): string {
  if (begun.length + more.length <= MOST_CHARACTERS) return begun + more
  throw engineError(
    'ENGINE_ERROR',
    `a line is longer than the longest string (${MOST_CHARACTERS}); use toReadableStream()`,
  )
}
