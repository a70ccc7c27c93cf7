/** The numbers of the last release, which the benchmark shows beside today's. The first release creates their file. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { BARS, SHORT, tableOf } from './results.mjs'

const file = new URL('released.json', import.meta.url)
const released = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined

/** Keeps the numbers of `bench/RESULTS.md` as those of this version. Each release calls it. */
export function keepResults(version) {
  const kept = Object.fromEntries([SHORT, BARS].map((title) => [title, tableOf(title)]))
  writeFileSync(file, `${JSON.stringify({ version, ...kept }, null, 1)}\n`)
}

/** Adds columns of the last release to a table, from those of these names. Without a release, it returns the table. */
export function besideRelease(title, [head, lines], names) {
  if (released === undefined) return [head, lines]
  const {
    version,
    [title]: [old, ...rows],
  } = released
  const before = (row, name) => rows.find(([first]) => first === row)?.[old.indexOf(name)] ?? '-'
  return [
    [...head, ...names.map((name) => `${name}, ${version}`)],
    lines.map((line) => [...line, ...names.map((name) => before(line[0], name))]),
  ]
}
