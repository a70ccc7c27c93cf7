/** Tables on standard output, with a header. */
import { stripVTControlCharacters } from 'node:util'
import { printable, printLine } from './terminal.js'

/** A cell shows this many characters of a command. */
const MOST_CHARACTERS = 60

/** Prints the rows below the header, each column as wide as its widest cell. A cell may have colours. */
export async function printTable(header: string[], rows: string[][]): Promise<void> {
  const table = [header, ...rows]
  const widths = header.map((_, column) =>
    table.reduce((most, row) => Math.max(most, widthOf(row[column])), 0),
  )
  for (const row of table) {
    const cells = row.map((cell, column) => cell + ' '.repeat((widths[column] ?? 0) - widthOf(cell)))
    await printLine(cells.join('  ').trimEnd())
  }
}

function widthOf(cell = ''): number {
  return stripVTControlCharacters(cell).length
}

/** The beginning of a text, on one line. */
export function short(text: string): string {
  const line = printable(text.replace(/\s+/g, ' '))
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line
}

/** Milliseconds as 12s, 3m, 5h or 2d. */
export function timeText(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}
