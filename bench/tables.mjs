/** The table of each row, by the row's id. */
import { digits, megabytes, table } from './text.mjs'

export const tables = {
  latency,
  paced,
  capture,
  stream,
  'first-byte': byName,
  lines,
  start: byName,
  idle,
  exit,
  endurance,
  background,
  alive,
  kill,
  parallel: byName,
  sessions,
  jobs,
  http: byName,
  stall,
  isolation,
  workspace,
}

function latency(results) {
  const lines = Object.entries(results).flatMap(([host, commands]) =>
    Object.entries(commands).flatMap(([command, { inARow, single }]) =>
      Object.keys(inARow).map((peer) => [
        `${host === 'large' ? '1 GB' : 'small'}, \`${command}\``,
        peer,
        ...times(inARow[peer], inARow.nacre),
        ...times(single[peer], single.nacre),
      ]),
    ),
  )
  const head = ['median', 'p99', 'min', 'to nacre']
  return table(
    [
      'host, command; ms',
      'by',
      ...head.map((name) => `in a row: ${name}`),
      ...head.map((name) => `single: ${name}`),
    ],
    lines,
  )
}

function isolation(results) {
  const lines = Object.entries(results).flatMap(([tier, measured]) =>
    Object.entries(measured).flatMap(([what, peers]) =>
      Object.entries(peers).map(([name, { median, p99 }]) => [
        what,
        name === 'isolated' ? `isolated, ${tier}` : name,
        digits(median),
        digits(p99),
        `${digits(median / peers['without isolation'].median)} x`,
      ]),
    ),
  )
  return table(['what', 'by', 'median ms', 'p99 ms', 'to none'], lines)
}

function workspace(results) {
  const lines = Object.values(results).flatMap((measured) =>
    Object.entries(measured).flatMap(([what, summaries]) => {
      const [base] = Object.values(summaries)
      return Object.entries(summaries).map(([name, summary]) => [what, name, ...times(summary, base)])
    }),
  )
  return table(['what', 'by', 'median ms', 'p99 ms', 'min ms', 'to the first'], lines)
}

function paced(results) {
  const lines = Object.entries(results).flatMap(([rest, peers]) =>
    Object.entries(peers).map(([name, { median, p90 }]) => [
      rest,
      name,
      digits(median),
      digits(p90),
      `${digits(median / peers['bare bash behind a pipe'].median)} x`,
    ]),
  )
  return table(['rest', 'by', 'median ms', 'p90 ms', 'to the bare bash'], lines)
}

/** Median, p99, minimum, and the ratio of the medians to that of `base`. */
function times(summary, base) {
  const { median, p99, min } = summary
  return [digits(median), digits(p99), digits(min), `${digits(median / base.median)} x`]
}

/** Times by name; the ratio is to the first. */
function byName({ '': results }) {
  const [[first, base]] = Object.entries(results)
  return table(
    ['by', 'median ms', 'p99 ms', 'min ms', `to ${first}`],
    Object.entries(results).map(([name, summary]) => [name, ...times(summary, base)]),
  )
}

function capture(results) {
  return table(
    ['by', 'ms', 'peak memory over size'],
    Object.entries(results).map(([name, { ms, growth }]) => [name, digits(ms), digits(growth)]),
  )
}

function stream(results) {
  return table(
    ['by', 'ms', 'MB more at the peak'],
    Object.entries(results).map(([name, { ms, growth }]) => [name, digits(ms), megabytes(growth)]),
  )
}

function lines(results) {
  return table(
    ['by', 'ms', 'million lines a second'],
    Object.entries(results).map(([name, { ms, perSecond }]) => [name, digits(ms), digits(perSecond / 1e6)]),
  )
}

function idle({ '': { processes, bytes } }) {
  const lines = processes.map(({ program, bytes }) => [program, megabytes(bytes)])
  return table(['process', 'private MB'], [...lines, ['together', megabytes(bytes)]])
}

function exit(results) {
  return table(
    [
      'state',
      'bytes of state',
      'exit code known, median ms',
      'next answer, median ms',
      'p99 ms',
      'two `true`, median ms',
    ],
    Object.entries(results).map(([name, { bytes, answer, next, plain }]) => [
      name,
      digits(bytes),
      digits(answer.median),
      digits(next.median),
      digits(next.p99),
      digits(plain.median),
    ]),
  )
}

function endurance({ '': { commands, before, after } }) {
  const names = { descriptors: 'descriptors', threads: 'threads', processes: 'processes below the host' }
  const lines = Object.entries({ ...names, groups: 'control groups' })
  return table(
    [`${commands} commands`, 'before', 'after'],
    [
      ['RSS of the host in MB', megabytes(before.rss), megabytes(after.rss)],
      ...lines.map(([key, name]) => [name, digits(before[key]), digits(after[key])]),
    ],
  )
}

function background(results) {
  const names = { pid: 'pid', output: 'first output' }
  return table(
    ['session', 'until', 'median ms', 'p99 ms', 'min ms'],
    Object.entries(results).flatMap(([session, summaries]) =>
      Object.entries(names).map(([key, name]) => {
        const { median, p99, min } = summaries[key]
        return [session, name, digits(median), digits(p99), digits(min)]
      }),
    ),
  )
}

function alive({ '': { started, lines, passed, used, share, kill, left } }) {
  return table(
    ['200 processes', 'value'],
    [
      ['start of all, ms', digits(started)],
      [`lines in ${digits(passed / 1000)} s`, digits(lines)],
      ['processor time of the host in that time, ms', digits(used)],
      ['share of one core, %', digits(share * 100)],
      ['kill of all, ms', digits(kill)],
      ['left', digits(left)],
    ],
  )
}

function kill(results) {
  const measured = Object.entries(results).filter(([, result]) => result !== null)
  return table(
    ['containment', 'runs', 'median ms', 'p99 ms', 'min ms', 'survivors'],
    measured.map(([name, { runs, median, p99, min, survivors }]) => [
      name,
      ...[runs, median, p99, min, survivors].map(digits),
    ]),
  )
}

function jobs({ '': { start, status, read, write } }) {
  const lines = Object.entries({ start, 'status of one that runs': status, 'read of nothing new': read })
  const files = { '256 MB into output.log': write.job, 'the same into a file': write.file }
  return table(
    ['jobs', 'median ms', 'p99 ms', 'min ms'],
    [...lines, ...Object.entries(files)].map(([name, { median, p99, min }]) => [
      name,
      ...[median, p99, min].map(digits),
    ]),
  )
}

function sessions(results) {
  return table(
    ['command', 'by', 'median ms', 'p99 ms', 'min ms', 'to nacre'],
    Object.entries(results).flatMap(([command, peers]) =>
      Object.entries(peers).map(([name, summary]) => [
        `\`${command}\``,
        name,
        ...times(summary, peers.nacre),
      ]),
    ),
  )
}

function stall(results) {
  return table(
    ['case', 'median ms', 'longest ms'],
    Object.entries(results).map(([name, { median, longest }]) => [name, digits(median), digits(longest)]),
  )
}
