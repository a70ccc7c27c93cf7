/** Turns results into Markdown: a summary table, a table of the targets, then one table per row and runtime. */
import { judge } from './bars.mjs'
import { besideRelease } from './released.mjs'
import { BARS, SHORT } from './results.mjs'
import { rows } from './rows/all.mjs'
import { MACHINES, MCP, marked } from './section.mjs'
import { tables } from './tables.mjs'
import { digits, table } from './text.mjs'

/** The targets of all runtimes in one table. */
export function barTable(byRuntime) {
  const judged = Object.entries(byRuntime).map(judge)
  const cell = (bar) => (bar.value === undefined ? '-' : `${shown(bar)}: ${bar.holds ? 'yes' : '**no**'}`)
  const names = Object.keys(byRuntime)
  const lines = (judged[0] ?? []).map(({ text }, index) => [text, ...judged.map((bars) => cell(bars[index]))])
  return table(...besideRelease(BARS, [['bar', ...names], lines], names))
}

const shown = ({ value, unit }) => `${digits(value)} ${unit}`

/** The targets that are not reached, one a line. */
export function missedBars(byRuntime) {
  const missed = Object.entries(byRuntime).flatMap(([runtime, results]) =>
    judge([runtime, results])
      .filter(({ value, holds }) => value !== undefined && !holds)
      .map((bar) => `${runtime}: ${bar.text}: ${shown(bar)}`),
  )
  return [`Bars that say no: ${missed.length || 'none'}`, ...missed].join('\n')
}

/** Medians in ms of all peers: many commands in a row, and single commands after a rest. */
function shortTable(byRuntime) {
  const measured = Object.entries(byRuntime).filter(([, results]) => results.latency !== undefined)
  const peers = [...new Set(measured.flatMap(([, { latency }]) => Object.keys(latency.small.true)))]
  const lines = measured.flatMap(([runtime, { latency }]) =>
    Object.entries(latency).flatMap(([host, commands]) =>
      Object.entries(commands).map(([command, times]) => [
        `${runtime}${host === 'large' ? ' holding 1 GB' : ''}, \`${command}\``,
        ...peers.map((peer) => digits(times[peer]?.median)),
      ]),
    ),
  )
  const paced = Object.entries(byRuntime).filter(([, results]) => results.paced !== undefined)
  const rested = paced.flatMap(([runtime, { paced }]) =>
    Object.entries(paced)
      .filter(([rest]) => rest.endsWith(' ms'))
      .map(([rest, results]) => [
        `${runtime}, \`true\` after ${rest}`,
        ...peers.map((peer) => digits(results[peer]?.median)),
      ]),
  )
  return table(
    ...besideRelease(
      SHORT,
      [
        ['median in ms', ...peers],
        [...lines, ...rested],
      ],
      ['nacre'],
    ),
  )
}

/** The whole page. `quick` adds a warning. `others` are the sections of other benchmarks. */
export function page(facts, byRuntime, quick, others) {
  const sections = Object.entries(byRuntime).flatMap(([runtime, results]) =>
    Object.entries(results).map(
      ([id, result]) => `### ${rows[id].title} (${runtime})\n\n${tables[id](result)}`,
    ),
  )
  const rough = quick ? ['**This was a short run (`--quick`): few samples, rough numbers.**', ''] : []
  return `${[
    '# Benchmark results',
    '',
    'Written by `npm run bench`; run that to repeat. Peers are measured in turn, so that whatever else the machine does',
    'hits all of them alike: trust ratios more than times.',
    '',
    ...rough,
    ...Object.entries(facts).map(([name, value]) => `- ${name}: ${value}`),
    '',
    `## ${SHORT}`,
    '',
    shortTable(byRuntime),
    '',
    `## ${BARS}`,
    '',
    barTable(byRuntime),
    '',
    '## Everything',
    '',
    sections.join('\n\n'),
    '',
    '## Many machines',
    '',
    marked(MACHINES, others[MACHINES]),
    '',
    '## MCP servers',
    '',
    marked(MCP, others[MCP]),
  ].join('\n')}\n`
}
