/**
 * Reads `bench/RESULTS.md`: the facts at its top, and the rows of its tables by title.
 */
import { readFileSync } from 'node:fs'

const text = readFileSync(new URL('RESULTS.md', import.meta.url), 'utf8')

/** A fact from the list at the top, such as `Machine` or `Date`. */
export function fact(name) {
  const value = new RegExp(`^- ${name}: (.*)$`, 'm').exec(text)?.[1]
  if (value === undefined) throw new Error(`bench/RESULTS.md has no fact called ${name}`)
  return value
}

/** The short table, as Markdown. */
export function shortTable() {
  const table = /<!-- short:begin -->\n(.*?)<!-- short:end -->/s.exec(text)?.[1]
  if (table === undefined) throw new Error('bench/RESULTS.md has no short table')
  return table.trim()
}

/** Splits a table into rows of cells; the first row is the header. */
function cellsOf(table) {
  const rows = table.split('\n').filter((line) => line.startsWith('|'))
  return rows
    .filter((line) => !/^\| ?-/.test(line))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    )
}

/** One cell of a table, by the table's title, the first cells of the row, and the column's name. */
export function cell(title, row, column) {
  const [header, ...rows] =
    title === 'In short'
      ? cellsOf(shortTable())
      : cellsOf(text.split(`### ${title}\n`)[1]?.split('\n#')[0] ?? '')
  const found = rows.find((cells) => row.every((name, index) => cells[index] === name))
  const value = found?.[header.indexOf(column)]
  if (value === undefined)
    throw new Error(`bench/RESULTS.md has no ${column} of ${row.join(', ')} in "${title}"`)
  return value
}
