/**
 * The benchmark: runs every row on Node, then on Bun. Prints one table and the bars that say no, and writes
 * everything to `bench/RESULTS.md`. It shows the numbers of the last release, from `bench/released.json`, beside today's.
 *
 *   node bench/bench.mjs [--quick] [--only=ROW,ROW] [--runtime=node|bun] [--out=FILE]
 *
 * Every sample runs in its own process (`sample.mjs`); rows whose peers share a process alternate between them. A full run
 * takes about 25 minutes.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { describeMachine } from './machine.mjs'
import { barTable, missedBars, page } from './report.mjs'
import { rows } from './rows/all.mjs'
import { MACHINES, MCP, section } from './section.mjs'

const here = path.dirname(fileURLToPath(import.meta.url))
const root = path.dirname(here)
/** No sample takes even a half of this. */
const LONGEST_SAMPLE = 240_000
/** In the outermost shell, a bash with a socket as its input takes itself for one of rshd: it reads .bashrc, which makes peers slow. */
const ENV = { ...process.env, SHLVL: '2' }

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: Object.keys(rows).join(',') },
    runtime: { type: 'string', default: 'node,bun' },
    out: { type: 'string', default: path.join(here, 'RESULTS.md') },
  },
})

const runtimes = { node: process.execPath, bun: path.join(root, 'node_modules/.bin/bun') }
const titles = { node: 'Node', bun: 'Bun' }

function sample(runtime, row, variant, settings) {
  const flags = runtime === 'node' ? ['--expose-gc'] : []
  const args = [...flags, path.join(here, 'sample.mjs'), row, variant, JSON.stringify(settings)]
  const output = execFileSync(runtimes[runtime], args, {
    cwd: root,
    env: ENV,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: LONGEST_SAMPLE,
  })
  return JSON.parse(output)
}

/** Runs all variants of a row, alternating if it has several rounds. */
function measure(runtime, id, settings) {
  const row = rows[id]
  const samples = Object.fromEntries(row.variants.map((variant) => [variant, []]))
  for (let round = 0; round < (row.rounds?.(settings) ?? 1); round++) {
    for (const variant of row.variants) samples[variant].push(sample(runtime, id, variant, settings))
  }
  const summarize = row.summarize ?? (([only]) => only)
  return Object.fromEntries(Object.entries(samples).map(([variant, all]) => [variant, summarize(all)]))
}

const chosen = values.runtime.split(',')
const unknown = [
  ...values.only.split(',').filter((id) => !(id in rows)),
  ...chosen.filter((name) => !(name in runtimes)),
]
if (unknown.length > 0) {
  console.error(`There is no ${unknown.join(', no ')}; the rows are ${Object.keys(rows).join(', ')}.`)
  process.exit(2)
}
const facts = describeMachine(root, { Node: runtimes.node, Bun: runtimes.bun })
const broken = chosen.filter((runtime) => facts[titles[runtime]] === 'unknown')
if (broken.length > 0) {
  console.error(`${runtimes[broken[0]]} cannot be run; \`npm run setup\` puts it in place.`)
  process.exit(2)
}
const byRuntime = {}
for (const runtime of chosen) {
  const results = {}
  for (const id of values.only.split(',')) {
    const begun = performance.now()
    const name = `${titles[runtime]}: ${rows[id].title}`
    try {
      results[id] = measure(runtime, id, { quick: values.quick })
      console.error(`${name}, ${((performance.now() - begun) / 1000).toFixed(0)} s`)
    } catch (error) {
      // The others took a long time: they are shown without it.
      console.error(`${name} failed: ${error.message}`)
      process.exitCode = 1
    }
  }
  byRuntime[titles[runtime]] = results
}
const kept = readFileSync(path.join(here, 'RESULTS.md'), 'utf8')
const others = Object.fromEntries([MACHINES, MCP].map((name) => [name, section(kept, name)]))
writeFileSync(values.out, page(facts, byRuntime, values.quick, others))
console.log(
  `${barTable(byRuntime)}\n\nThe whole is in ${path.relative(process.cwd(), values.out)}. ${missedBars(byRuntime)}`,
)
