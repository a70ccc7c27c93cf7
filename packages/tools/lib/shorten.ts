/** Output that fits into a budget of tokens: its start and its end, with what is missing between them. */
import { unforged } from './plain.js'
import { estimateTokens } from './tokens.js'

/** Characters of a line that are shown, and how many of them are from its end. */
const MAX_LINE = 1000
const LINE_END = 200
/** Only so many characters of each end can be shown, so these decide how many of them a token has. */
const END = 20_000
/** Of the line that says what is missing. */
const GAP_TOKENS = 12
/** Characters that are shown in any case. */
const LEAST_REST = 20
/** For some kinds of output, the estimate is too low by this factor. */
const MARGIN = 1.1

/** Counts the tokens of a text. */
export type CountTokens = (text: string) => number

/** Plain text, of which the middle may be missing. */
export interface Excerpt {
  /** The start, or the whole text. */
  head: string
  /** The end, if anything is missing. */
  tail: string
  /** How many characters are missing between them. */
  missing: number
}

export interface Shortened {
  text: string
  /** How many characters are missing. */
  missing: number
}

/** Keeps a third of the budget from the start and the rest from the end, in whole lines where possible. */
export function shorten(excerpt: Excerpt, tokens: number, count: CountTokens = estimateTokens): Shortened {
  const [head, tail] = [shortenLines(excerpt.head), shortenLines(excerpt.tail)]
  const all = excerpt.head.length + excerpt.tail.length + excerpt.missing
  const room = roomFor(head + tail, tokens, count)
  if (excerpt.missing === 0 && head.length + tail.length <= room) {
    return { text: unforged(head + tail), missing: Math.max(0, all - head.length - tail.length) }
  }
  const limit = Math.max(1, tokens - GAP_TOKENS)
  const isWhole = excerpt.missing === 0
  for (let rest = roomFor(head + tail, limit, count); ; ) {
    const start = startOf(isWhole ? head + tail : head, Math.floor(rest / 3))
    const end = endOf(isWhole ? head + tail : tail, rest - start.length)
    const used = count(start + end) * MARGIN
    if (used > limit && rest > LEAST_REST) {
      // What is shown has more tokens than the rest of the text.
      rest = Math.floor((rest * limit) / used)
      continue
    }
    const missing = all - start.length - end.length
    const newline = start === '' || start.endsWith('\n') ? '' : '\n'
    const gap = `[... ${formatCount(missing)} characters left out ...]`
    // A cut may halve a character that has two code units.
    return {
      text: `${unforged(start)}${newline}${gap}\n${unforged(end)}`.replace(/\p{Surrogate}/gu, '\ufffd'),
      missing,
    }
  }
}

/** A number with commas, as `61,022`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US')
}

/** How many characters of a text a budget can show. */
function roomFor(text: string, tokens: number, count: CountTokens): number {
  const ends = text.length <= 2 * END ? text : text.slice(0, END) + text.slice(-END)
  return Math.floor((tokens * ends.length) / Math.max(1, count(ends)) / MARGIN)
}

function shortenLines(text: string): string {
  if (text.length <= MAX_LINE) return text
  return text.split('\n').map(shortenLine).join('\n')
}

/** A line that loses its middle if it is too long. */
export function shortenLine(line: string): string {
  if (line.length <= MAX_LINE) return line
  const left = formatCount(line.length - MAX_LINE)
  return `${line.slice(0, MAX_LINE - LINE_END)}[... ${left} characters ...]${line.slice(-LINE_END)}`
}

/** The start of a text, to the end of a line unless that loses half of it. */
function startOf(text: string, length: number): string {
  const start = text.slice(0, length)
  const newline = start.lastIndexOf('\n') + 1
  return newline > start.length / 2 ? start.slice(0, newline) : start
}

/** The end of a text, from the start of a line unless that loses half of it. */
function endOf(text: string, length: number): string {
  const end = text.slice(Math.max(0, text.length - length))
  const newline = end.indexOf('\n') + 1
  return newline < end.length / 2 ? end.slice(newline) : end
}
