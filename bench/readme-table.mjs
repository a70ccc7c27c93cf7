/**
 * Puts the short table of `bench/RESULTS.md` into README.md, between its two markers.
 *
 *   node bench/readme-table.mjs [--check]     --check changes nothing and fails when the README is behind
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const readme = path.join(root, 'README.md')
const BEGIN = '<!-- bench:begin -->'
const END = '<!-- bench:end -->'

/** Cuts a text at two markers: what stands before, between and behind them, the markers outside. */
function cut(text, begin, end) {
  const from = text.indexOf(begin) + begin.length
  const to = text.indexOf(end)
  if (from < begin.length || to < from) throw new Error(`${begin} and ${end} are missing`)
  return [text.slice(0, from), text.slice(from, to), text.slice(to)]
}

/** The table with a line below it that says where it comes from. */
function section(results) {
  const fact = (name) => new RegExp(`^- ${name}: (.*)$`, 'm').exec(results)?.[1] ?? 'unknown'
  const rough = results.includes('--quick') ? ' A short run, with few samples.' : ''
  const source = `Node ${fact('Node')}, Bun ${fact('Bun')}, bash ${fact('bash')}, ${fact('Machine')}, ${fact('Date')}.${rough}`
  const [, table] = cut(results, '<!-- short:begin -->', '<!-- short:end -->')
  return `\n\n${table.trim()}\n\n${source}\n\n`
}

const before = readFileSync(readme, 'utf8')
const results = readFileSync(path.join(root, 'bench/RESULTS.md'), 'utf8')
const [head, , tail] = cut(before, BEGIN, END)
const after = `${head}${section(results)}${tail}`
if (!process.argv.includes('--check')) {
  writeFileSync(readme, after)
} else if (after !== before) {
  console.error('README.md shows an older benchmark: run `node bench/readme-table.mjs`.')
  process.exit(1)
}
