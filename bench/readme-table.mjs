/**
 * Writes the table of the section "Why not `child_process`?" of README.md, between its two markers, with numbers from `bench/RESULTS.md`.
 *
 *   node bench/readme-table.mjs [--check]     --check changes nothing and fails when the README is out of date
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cell, fact, SHORT } from './results.mjs'

const readme = new URL('../README.md', import.meta.url)
const BEGIN = '<!-- bench:begin -->'
const END = '<!-- bench:end -->'

const short = (row, column) => cell(SHORT, [row], column)
const killed = (column) => cell('Kill of a tree of 20 processes (Node)', ['with control groups'], column)
const captured = (by, column) => cell('200 MB of output (Node)', [by], column)
const job = (row) => cell('Durable jobs (Node)', [row], 'median ms')
const exit = (column) => cell('`exit 3`, then the next command (Node)', ['small state'], column)

const ROWS = [
  [
    'State persists between commands: directory, variables, functions, traps',
    `\`true\` takes ${short('Node, `true`', 'nacre')} ms; \`child_process.exec\` takes ${short('Node, `true`', 'child_process.exec')} ms`,
  ],
  [
    'A session survives `exit`, `set -e`, an unclosed quote and `kill -9 $$`',
    `\`exit 3\` and the next command together take ${exit('next answer, median ms')} ms`,
  ],
  [
    'Commands stay fast in a host that uses a lot of memory',
    `with 1 GB in Node: ${short('Node holding 1 GB, `true`', 'nacre')} ms; \`child_process.exec\`: ${short('Node holding 1 GB, `true`', 'child_process.exec')} ms`,
  ],
  [
    'A timeout kills the whole tree, including `setsid`, double forks and moves to other control groups ([what remains](docs/killing.md#what-can-survive))',
    `20 processes in ${killed('median ms')} ms; ${killed('survivors')} survivors in ${killed('runs')} runs`,
  ],
  [
    'Output is exact, live and bounded',
    `200 MB in ${captured('nacre, bytes', 'ms')} ms with ${captured('nacre, bytes', 'peak memory over size')} times its size in memory; \`spawn\`: ${captured('child_process.spawn, bytes', 'ms')} ms, ${captured('child_process.spawn, bytes', 'peak memory over size')} times`,
  ],
  [
    'Durable jobs outlive the program',
    `a start takes ${job('start')} ms, a status query ${job('status of one that runs')} ms`,
  ],
]

/** The table, followed by a line that names its source. */
function section() {
  const rows = ROWS.map(([what, figure]) => `| ${what} | ${figure} |`)
  return [
    '',
    '',
    '| What nacre does | Measured (medians on Node) |',
    '| --- | --- |',
    ...rows,
    '',
    `Node ${fact('Node')}, bash ${fact('bash')}, ${fact('Machine')}, ${fact('Date')}.`,
    '',
    '',
  ].join('\n')
}

const before = readFileSync(readme, 'utf8')
const from = before.indexOf(BEGIN) + BEGIN.length
const to = before.indexOf(END)
if (from < BEGIN.length || to < from) throw new Error(`${BEGIN} and ${END} are missing in README.md`)
const after = before.slice(0, from) + section() + before.slice(to)
if (!process.argv.includes('--check')) {
  writeFileSync(readme, after)
} else if (after !== before) {
  console.error('README.md shows an older benchmark: run `node bench/readme-table.mjs`.')
  process.exit(1)
}
