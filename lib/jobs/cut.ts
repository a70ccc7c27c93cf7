/**
 * Decides how many of the bytes read can be returned. Only this module deals with lines and characters.
 *
 * Bytes held back are read again by the next call, so a cursor is always an offset in the file. No state is kept between
 * calls, so invalid bytes cannot make the cursor drift.
 */
import { incompleteLength } from '../base/utf8.js'

/** A part of the output, as stored in the file. */
export interface Window {
  bytes: Uint8Array
  /** Nothing follows it. */
  atEnd: boolean
  /** No process of the job was left before the read. */
  ended: boolean
  /** It has the maximum length. */
  full: boolean
}

export interface Cut {
  /** Return only whole lines. */
  lines: boolean
  /** Return only whole characters. */
  text: boolean
}

const NEWLINE = 0x0a

/** Maximum bytes of a character. */
export const LONGEST_CHARACTER = 4

/**
 * How many bytes can be returned. A line that fills the whole window is cut after all: it may have no end.
 *
 * 0 for a full window means that the window is too small for its first character.
 */
export function deliverable({ bytes, atEnd, ended, full }: Window, { lines, text }: Cut): number {
  if (atEnd && ended) return bytes.length
  if (lines) {
    const length = bytes.lastIndexOf(NEWLINE) + 1
    if (length > 0 || !full) return length
  }
  return text ? bytes.length - incompleteLength(bytes) : bytes.length
}
