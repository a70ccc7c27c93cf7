/** Reads `bench/RESULTS.md`: the facts at its top, and the rows of its tables by title. */
import { readFileSync } from 'node:fs'

const text = readFileSync(new URL('RESULTS.md', import.meta.url), 'utf8')

/** The titles of the first two tables. */
export const SHORT = 'In short'
export const BARS = 'What nacre is meant to reach'

/** A fact from the list at the top, such as `Machine` or `Date`. */
export function fact(name) {
  const value = new RegExp(`^- ${name}: (.*)$`, 'm').exec(text)?.[1]
  if (value === undefined) throw new Error(`bench/RESULTS.md has no fact called ${name}`)
  return value
}

/** The cells of a table, row by row; the first row is the header. */
export function tableOf(title) {
  const lines = text.split(`# ${title}\n`)[1]?.split('\n#')[0]?.split('\n') ?? []
  const rows = lines.filter((line) => line.startsWith('|') && !/^\| ?-/.test(line))
  return rows.map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )
}

/** One cell of a table, by the table's title, the first cells of the row, and the column's name. */
export function cell(title, row, column) {
  const [header, ...rows] = tableOf(title)
  const found = rows.find((cells) => row.every((name, index) => cells[index] === name))
  const value = found?.[header.indexOf(column)]
  if (value === undefined)
    throw new Error(`bench/RESULTS.md has no ${column} of ${row.join(', ')} in "${title}"`)
  return value
}
