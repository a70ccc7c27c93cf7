/**
 * Character boundaries in UTF-8, and text that arrives in pieces. Runs wherever JavaScript does.
 *
 * Invalid bytes become U+FFFD, and a byte order mark stays: the output of a command is not a document.
 */

const NONE = new Uint8Array(0)
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** 64 KiB: engines collect longer strings late, with the old objects, so a stream of them would fill the memory. */
export const MOST_TEXT_BYTES = 64 * 1024

/**
 * The last place at or before `at` where cutting does not split a character.
 *
 * A character has at most three continuation bytes. Four in a row are invalid anyway, so any place will do.
 */
export function characterBoundary(bytes: Uint8Array, at: number): number {
  for (let place = at; place >= 0 && place > at - 4; place--) {
    if (!isContinuation(bytes[place])) return place
  }
  return at
}

/** Decodes a stream piece by piece, however it was cut: an incomplete character waits for the next piece. */
export class PieceDecoder {
  /** The waiting bytes: a copy, so that they do not keep a whole piece in memory. */
  #waiting = NONE
  #written = 0

  /** How many bytes the text so far represents. */
  get position(): number {
    return this.#written - this.#waiting.length
  }

  write(piece: Uint8Array): string {
    this.#written += piece.length
    const bytes = this.#waiting.length === 0 ? piece : join(this.#waiting, piece)
    const end = bytes.length - incompleteLength(bytes)
    if (end < bytes.length || this.#waiting.length > 0) this.#waiting = Uint8Array.from(bytes.subarray(end))
    return decoder.decode(bytes.subarray(0, end))
  }

  /** The remains of a character that was never completed, as U+FFFD. */
  end(): string {
    const bytes = this.#waiting
    this.#waiting = NONE
    return decoder.decode(bytes)
  }
}

/**
 * The length of an incomplete character at the end. Cutting before the first byte of a character never changes how the two
 * sides decode, valid or not.
 */
export function incompleteLength(bytes: Uint8Array): number {
  for (let length = 1; length < 4 && length <= bytes.length; length++) {
    const byte = bytes[bytes.length - length] ?? 0
    if (byte < 0x80) return 0
    if (!isContinuation(byte)) return length < characterLength(byte) ? length : 0
  }
  return 0
}

/** How many bytes at the beginning belong to a character that began before. */
export function brokenLength(bytes: Uint8Array): number {
  let length = 0
  while (length < 3 && isContinuation(bytes[length])) length++
  return length
}

function characterLength(first: number): number {
  if (first < 0xe0) return 2
  return first < 0xf0 ? 3 : 4
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array {
  const joined = new Uint8Array(first.length + second.length)
  joined.set(first)
  joined.set(second, first.length)
  return joined
}
