/**
 * Marks the place in text where output beyond `maxBuffer` is missing.
 *
 * The engine keeps the first and the last half of what fits. Joined directly, they would show a line that was never
 * printed. So both halves are cut at a line end, and a separate line says how many bytes are missing between them.
 */
import { brokenLength, incompleteLength } from './utf8.js'

const NEWLINE = 0x0a
/** Maximum distance between the cut and a line end. Longer lines are cut at a character. */
const LONGEST_PART = 64 * 1024

/** Where the engine cuts output that is longer than `maxBuffer`. */
export function cutOf(maxBuffer: number): number {
  return Math.floor(maxBuffer / 2)
}

/** A part of the kept bytes that is left out, and the text that replaces it. */
export interface Omission {
  /** Offsets in the kept bytes. */
  start: number
  end: number
  /** Missing bytes of the stream, including those left out here. */
  missing: number
  marker: string
}

/**
 * The omission in the kept bytes of a stream that lacks `dropped` bytes at `cut`. None if nothing was kept: there is no
 * text to mislead.
 */
export function omissionIn(kept: Uint8Array, cut: number, dropped: number): Omission | undefined {
  if (dropped === 0 || kept.length === 0) return undefined
  const start = lineEndBefore(kept, cut)
  const end = lineEndBehind(kept, cut)
  const missing = dropped + end - start
  const before = start > 0 && kept[start - 1] !== NEWLINE ? '\n' : ''
  return { start, end, missing, marker: `${before}[${grouped(missing)} bytes omitted]\n` }
}

/** With a comma between thousands. `toLocaleString` takes 90 ms when it is first called, to load its locale. */
function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',')
}

/** Where the last whole line of the head ends, or else its last whole character. */
function lineEndBefore(kept: Uint8Array, cut: number): number {
  const from = Math.max(0, cut - LONGEST_PART)
  const at = kept.subarray(from, cut).lastIndexOf(NEWLINE)
  return at === -1 ? cut - incompleteLength(kept.subarray(0, cut)) : from + at + 1
}

/** Where the first whole line of the tail begins, or else its first whole character. */
function lineEndBehind(kept: Uint8Array, cut: number): number {
  const at = kept.subarray(cut, cut + LONGEST_PART).indexOf(NEWLINE)
  return cut + (at === -1 ? brokenLength(kept.subarray(cut)) : at + 1)
}
