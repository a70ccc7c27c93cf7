/** The table of each row, by the row's id. */
import { digits, megabytes, table } from './text.mjs'

export const tables = {
  latency,
  paced,
  capture,
  stream,
  'first-byte': byName,
  lines,
  messages: workspace,
  start: byName,
  idle,
  exit,
  endurance,
  commands: byName,
  background,
  alive,
  busy: byName,
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
  return table(
    ['host, command', 'by', ...TIMES, 'to nacre'],
    Object.entries(results).flatMap(([host, commands]) =>
      Object.entries(commands).flatMap(([command, peers]) =>
        Object.entries(peers).map(([peer, summary]) => [
          `${host === 'large' ? '1 GB' : 'small'}, \`${command}\``,
          peer,
          ...compared(summary, peers.nacre),
        ]),
      ),
    ),
  )
}

function isolation(results) {
  const lines = Object.entries(results).flatMap(([tier, measured]) =>
    Object.entries(measured).flatMap(([what, peers]) =>
      Object.entries(peers).map(([name, summary]) => [
        what,
        name === 'isolated' ? `isolated, ${tier}` : name,
        ...compared(summary, peers['without isolation']),
      ]),
    ),
  )
  return table(['what', 'by', ...TIMES, 'to none'], lines)
}

function workspace(results) {
  const lines = Object.values(results).flatMap((measured) =>
    Object.entries(measured).flatMap(([what, summaries]) => {
      const [base] = Object.values(summaries)
      return Object.entries(summaries).map(([name, summary]) => [what, name, ...compared(summary, base)])
    }),
  )
  return table(['what', 'by', ...TIMES, 'to the first'], lines)
}

function paced(results) {
  const lines = Object.entries(results).flatMap(([rest, peers]) =>
    Object.entries(peers).map(([name, summary]) => [
      rest,
      name,
      digits(summary.p90),
      ...compared(summary, peers['bare bash behind a pipe']),
    ]),
  )
  return table(['rest', 'by', 'p90 ms', ...TIMES, 'to the bare bash'], lines)
}

const TIMES = ['median ms', 'p10 ms', 'min ms', 'p99 ms']

function times({ median, p10, min, p99 }) {
  return [median, p10, min, p99].map(digits)
}

/** The times, and the ratio of the medians to that of `base`. */
function compared(summary, base) {
  return [...times(summary), `${digits(summary.median / base.median)} x`]
}

/** Times by name; the ratio is to the first. */
function byName({ '': results }) {
  const [[first, base]] = Object.entries(results)
  return table(
    ['by', ...TIMES, `to ${first}`],
    Object.entries(results).map(([name, summary]) => [name, ...compared(summary, base)]),
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
    ['session', 'until', ...TIMES],
    Object.entries(results).flatMap(([session, summaries]) =>
      Object.entries(names).map(([key, name]) => [session, name, ...times(summaries[key])]),
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
    ['containment', 'runs', ...TIMES, 'survivors'],
    measured.map(([name, result]) => [name, digits(result.runs), ...times(result), digits(result.survivors)]),
  )
}

function jobs({ '': { start, status, read, write } }) {
  const lines = Object.entries({ start, 'status of one that runs': status, 'read of nothing new': read })
  const files = { '256 MB into output.log': write.job, 'the same into a file': write.file }
  return table(
    ['jobs', ...TIMES],
    [...lines, ...Object.entries(files)].map(([name, summary]) => [name, ...times(summary)]),
  )
}

function sessions(results) {
  return table(
    ['command', 'by', ...TIMES, 'to nacre'],
    Object.entries(results).flatMap(([command, peers]) =>
      Object.entries(peers).map(([name, summary]) => [
        `\`${command}\``,
        name,
        ...compared(summary, peers.nacre),
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
