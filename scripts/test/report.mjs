/** The end of a test run: a table of the steps, which have become slow, the flaky tests, and the failures last. */
import { readFileSync } from 'node:fs'

/** Seconds of each step in a run of `check` in a fresh clone, on two quiet processors. */
const BASELINE = JSON.parse(readFileSync(new URL('seconds.json', import.meta.url), 'utf8'))

/** A step is slow above this multiple of its baseline, and only if that is also some seconds more. */
const SLOW = 1.25
const MIN_SLOW_SECONDS = 10

/** Maximum number of lines, so that a log which is cut to its end still has everything. */
const MOST_LINES = 40

/** Of a line. */
const MOST_COLUMNS = 200

/**
 * Prints the results of all steps. Returns whether they passed.
 *
 * @param {boolean} strict whether a flaky test counts as a failure
 */
export function report(results, strict) {
  const lines = [...table(results), ...slowSteps(results)]
  const failures = entries(results, 'failures')
  const flaky = entries(results, 'flaky')
  const passed = results.reduce((sum, result) => sum + result.passed + result.flaky.length, 0)
  lines.push('', `${passed} passed, ${failures.length} failed`)
  if (flaky.length > 0) lines.push('', `flaky: ${flaky.length}`)
  // The failures come last, and the flaky tests leave room for them.
  const room = MOST_LINES - lines.length - (failures.length > 0 ? 2 : 0)
  const kept = firstLines(failures, flaky.length > 0 ? room - 5 : room)
  lines.push(...firstLines(flaky, room - kept.length))
  if (failures.length > 0) lines.push('', `failed: ${failures.length}`, ...kept)
  console.log(lines.map((line) => line.slice(0, MOST_COLUMNS)).join('\n'))
  return failures.length === 0 && !(strict && flaky.length > 0)
}

function table(results) {
  const rows = results.map(({ name, seconds, passed, failures, flaky }) => [
    name,
    seconds.toFixed(0),
    ...[passed + flaky.length, failures.length, flaky.length].map((count) =>
      count === 0 ? '' : String(count),
    ),
  ])
  return [['step', 'seconds', 'passed', 'failed', 'flaky'], ...rows].map(([name, ...cells]) =>
    `${name.padEnd(14)}${cells.map((cell) => cell.padStart(9)).join('')}`.trimEnd(),
  )
}

/** A warning for each step that takes longer than it did. Runs that leave out steps are faster, and one on a busy machine slower. */
function slowSteps(results) {
  return results.flatMap(({ name, seconds }) => {
    const before = BASELINE[name]
    const isSlow = seconds > before * SLOW && seconds > before + MIN_SLOW_SECONDS
    return isSlow ? [`slow: ${name} took ${seconds.toFixed(0)} s, and ${before} s before (seconds.json)`] : []
  })
}

/** Each as the lines of its place and its message. */
function entries(results, kind) {
  return results.flatMap(({ name, [kind]: found }) =>
    found.map(({ file, test, message }) => {
      const seed = /NACRE_SEED=\d+/.exec(message)?.[0]
      const place = [name, file, test, seed].filter(Boolean).join(' › ')
      return [
        `  ${place}`,
        ...message
          .split('\n')
          .filter(Boolean)
          .map((line) => `    ${line}`),
      ]
    }),
  )
}

/** The first lines of each entry, so that all entries together have at most `room` lines. */
function firstLines(all, room) {
  const shown = all.slice(0, Math.max(1, room))
  const each = Math.max(1, Math.floor(room / Math.max(1, shown.length)))
  return shown.flatMap((lines) => lines.slice(0, each))
}
