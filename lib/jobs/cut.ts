/**
 * How much of what was read can be handed out: the one place that knows about lines and characters.
 *
 * What is kept back is read again with the next call, so a cursor is always a number of bytes in the file, and nothing
 * has to be remembered from call to call: invalid bytes cannot make it drift.
 */
import { incompleteLength } from '../base/utf8.js'

/** A part of the output, as it lies in the file. */
export interface Window {
  bytes: Uint8Array
  /** There was nothing after it. */
  atEnd: boolean
  /** The job was over before it was read. */
  ended: boolean
  /** It is as long as it may be. */
  full: boolean
}

export interface Cut {
  /** Only whole lines. */
  lines: boolean
  /** Only whole characters. */
  text: boolean
}

const NEWLINE = 0x0a

/** The longest character, in bytes. */
export const LONGEST_CHARACTER = 4

/**
 * How many bytes can be handed out. A line that fills the whole window is cut after all: it could be without end.
 *
 * 0 for a full window means that it is too small for the character it begins with.
 */
export function deliverable({ bytes, atEnd, ended, full }: Window, { lines, text }: Cut): number {
  if (atEnd && ended) return bytes.length
  if (lines) {
    const length = bytes.lastIndexOf(NEWLINE) + 1
    if (length > 0 || !full) return length
  }
  return text ? bytes.length - incompleteLength(bytes) : bytes.length
}
