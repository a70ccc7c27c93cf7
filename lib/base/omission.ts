/**
 * Marks the place in text where output beyond `maxBuffer` is missing.
 *
 * The engine keeps the first and the last half of what fits. Glued together they would show a line that was never
 * printed. So both halves are cut at a line end, and a line of its own says how many bytes are missing between them.
 */
import { characterBoundary } from './utf8.js'

const NEWLINE = 0x0a
/** How far from the cut a line end is looked for. Longer lines are cut at a character. */
const LONGEST_PART = 64 * 1024

/** Where the engine cuts output that is longer than `maxBuffer`. */
export function cutOf(maxBuffer: number): number {
  return Math.floor(maxBuffer / 2)
}

/** A part of the kept bytes that is left out, and the text that stands for it. */
export interface Omission {
  /** Offsets in the kept bytes. */
  start: number
  end: number
  /** Bytes of the stream that are missing, with those left out here. */
  missing: number
  marker: string
}

/** The omission in the kept bytes of a stream, of which bytes are missing at `cut`. Nothing kept: nothing to mark, since no text could mislead. */
export function omissionIn(kept: Uint8Array, cut: number, dropped: number): Omission | undefined {
  if (dropped === 0 || kept.length === 0) return undefined
  const start = lineEndBefore(kept, cut)
  const end = lineEndBehind(kept, cut)
  const missing = dropped + end - start
  const before = start > 0 && kept[start - 1] !== NEWLINE ? '\n' : ''
  return { start, end, missing, marker: `${before}[${missing.toLocaleString('en-US')} bytes omitted]\n` }
}

/** Where the last whole line of the head ends, or its last character. */
function lineEndBefore(kept: Uint8Array, cut: number): number {
  const from = Math.max(0, cut - LONGEST_PART)
  const at = kept.subarray(from, cut).lastIndexOf(NEWLINE)
  return at === -1 ? characterBoundary(kept.subarray(0, cut + 1), cut) : from + at + 1
}

/** Where the first whole line of the tail begins, or its first character. */
function lineEndBehind(kept: Uint8Array, cut: number): number {
  const at = kept.subarray(cut, cut + LONGEST_PART).indexOf(NEWLINE)
  if (at !== -1) return cut + at + 1
  let place = cut
  while (place < cut + 3 && ((kept[place] ?? 0) & 0xc0) === 0x80) place++
  return place
}
