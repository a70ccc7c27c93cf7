/**
 * The format asciicast v3 (https://docs.asciinema.org/manual/asciicast/v3/): a header, and then a line for each event,
 * `[interval, code, data]`. The interval is the time since the event before, in seconds. Lines that begin with `#` are comments.
 */

/** Output, the size of the terminal, a marker, and the exit status. */
export type CastCode = 'o' | 'r' | 'm' | 'x'

export interface Size {
  cols: number
  rows: number
}

export interface CastHeader extends Size {
  /** When the recording begins. */
  time: Date
  title: string
}

/** An event as it was read. Its code can be any. */
export interface CastEvent {
  /** Seconds since the event before. */
  interval: number
  code: string
  data: string
}

export function headerLine({ cols, rows, time, title }: CastHeader): string {
  const timestamp = Math.floor(time.getTime() / 1000)
  return `${JSON.stringify({ version: 3, term: { cols, rows, type: 'xterm-256color' }, timestamp, title })}\n`
}

/** `milliseconds` is the interval. */
export function eventLine(milliseconds: number, code: CastCode, data: string): string {
  return `[${(milliseconds / 1000).toFixed(3)}, "${code}", ${JSON.stringify(data)}]\n`
}

/** The text is on one line. */
export function commentLine(text: string): string {
  return `# ${text}\n`
}

export function sizeText({ cols, rows }: Size): string {
  return `${cols}x${rows}`
}

/** Undefined when it is no size. */
export function sizeOf(text: string): Size | undefined {
  const [, cols, rows] = /^(\d{1,5})x(\d{1,5})$/.exec(text) ?? []
  return cols === undefined ? undefined : { cols: Number(cols), rows: Number(rows) }
}

/** Reads the header. Undefined when the line is none of this version. */
export function readHeader(line: string): { size: Size; title: string | undefined } | undefined {
  const header = parsed(line) as
    | { version?: unknown; term?: { cols?: unknown; rows?: unknown }; title?: unknown }
    | undefined
  if (header?.version !== 3) return undefined
  const size = sizeOf(`${header.term?.cols}x${header.term?.rows}`)
  return size && { size, title: typeof header.title === 'string' ? header.title : undefined }
}

/** Reads a line after the header. Undefined for a comment, an empty line, and a line that is not of this format. */
export function readEvent(line: string): CastEvent | undefined {
  if (line.startsWith('#')) return undefined
  const event = parsed(line)
  if (!Array.isArray(event)) return undefined
  const [interval, code, data] = event as unknown[]
  const isEvent =
    typeof interval === 'number' && interval >= 0 && typeof code === 'string' && typeof data === 'string'
  return isEvent ? { interval, code, data } : undefined
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
