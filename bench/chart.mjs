/**
 * Draws docs/public/bench.svg from the short table of `bench/RESULTS.md`: one command on Node, in small and large hosts.
 * The colours follow the reader's light or dark scheme.
 *
 *   node bench/chart.mjs [--check]     --check changes nothing and fails when the chart is out of date
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { cell, fact, SHORT } from './results.mjs'

const file = new URL('../docs/public/bench.svg', import.meta.url)
const WIDTH = 760
const LABEL = 150
const BAR = 20
const STEP = 28
/** Space to the right of a full bar, for its number. */
const NUMBER = 90
const NAMES = ['nacre', 'child_process.exec', 'execa', 'bash over FIFOs']

const PANELS = [
  { row: 'Node, `true`', title: 'The builtin true, in a small host' },
  { row: 'Node, `/bin/true`', title: 'The program /bin/true, in a small host' },
  { row: 'Node holding 1 GB, `true`', title: 'The builtin true, in a host that holds 1 GB of memory' },
]

/** Draws the bars of one panel, with lengths proportional to their times. All panels share one scale. */
function panel({ row, title }, top, longest) {
  const bars = NAMES.map((name, index) => {
    const ms = cell(SHORT, [row], name)
    const y = top + 30 + index * STEP
    const width = Math.max(2, (Number(ms) / longest) * (WIDTH - LABEL - NUMBER))
    return [
      `<text class="name" x="${LABEL - 10}" y="${y + 15}">${name}</text>`,
      `<rect class="${name === 'nacre' ? 'ours' : 'bar'}" x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR}" rx="3"/>`,
      `<text class="${name === 'nacre' ? 'ms strong' : 'ms'}" x="${(LABEL + width + 8).toFixed(1)}" y="${y + 15}">${ms} ms</text>`,
    ].join('\n')
  })
  return `<text class="title" x="${LABEL}" y="${top + 16}">${title}</text>\n${bars.join('\n')}`
}

function chart() {
  const height = 60 + PANELS.length * (NAMES.length * STEP + 46)
  const times = PANELS.flatMap(({ row }) => NAMES.map((name) => Number(cell(SHORT, [row], name))))
  const panels = PANELS.map((each, index) =>
    panel(each, 40 + index * (NAMES.length * STEP + 46), Math.max(...times)),
  )
  const source = `Median of many runs. Node ${fact('Node')}, bash ${fact('bash')}, ${fact('Date')}.`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-labelledby="t">
<title id="t">Time of one command on Node: nacre and three others</title>
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #57606a }
.head { font-size: 16px; font-weight: 600; fill: #1f2328 }
.title { font-weight: 600; fill: #1f2328 }
.name { text-anchor: end }
.strong { font-weight: 700; fill: #1f2328 }
.bar { fill: #afb8c1 }
.ours { fill: #0f8a7e }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1 }
.head, .title, .strong { fill: #f0f6fc }
.bar { fill: #59636e }
.ours { fill: #2fc4b2 }
}
</style>
<text class="head" x="${LABEL}" y="24">Time of one command on Node</text>
${panels.join('\n')}
<text x="${LABEL}" y="${height - 10}">${source}</text>
</svg>
`
}

const drawn = chart()
if (!process.argv.includes('--check')) {
  writeFileSync(file, drawn)
} else if (readFileSync(file, 'utf8') !== drawn) {
  console.error('docs/public/bench.svg shows an older benchmark: run `node bench/chart.mjs`.')
  process.exit(1)
}
