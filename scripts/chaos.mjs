/**
 * Tests random combinations of calls: abort, timeout, queue, kill, start, cleanup, destroy, and deaths of processes.
 *
 *   node scripts/chaos.mjs [--seed N] [--seconds N] [--mode builtin|plain|isolated|nogroups] [--keep-going]
 *
 * Needs a debug build (`node scripts/setup.mjs --debug`) and also runs on Bun. Without --mode, rounds take turns in all
 * modes. A round is one to three sandboxes in which several programs make calls at once. The model in `fuzz/chaos.mjs`
 * knows what each call may result in. Round N of seed S makes the same calls in every run, except for the machine's
 * timing. On a violation, prints the seed of the round and its last calls, and exits with 1.
 */
import { parseArgs } from 'node:util'

process.env.NACRE_NATIVE ??= 'debug'
const { MODES, runRound } = await import('./fuzz/chaos.mjs')
const { warmUp } = await import('./fuzz/round.mjs')

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: process.env.NACRE_SEED ?? String(Date.now() % 1_000_000_000) },
    seconds: { type: 'string', default: '60' },
    mode: { type: 'string' },
    'keep-going': { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const seconds = Number(values.seconds)
const modes = values.mode === undefined ? Object.keys(MODES) : [values.mode]
if (!Number.isSafeInteger(seed) || !(seconds > 0) || MODES[modes[0]] === undefined) {
  console.error(
    `usage: chaos.mjs [--seed N] [--seconds N] [--mode ${Object.keys(MODES).join('|')}] [--keep-going]`,
  )
  process.exit(2)
}

console.log(`seed ${seed}`)
await warmUp()
const deadline = performance.now() + seconds * 1000
let calls = 0
let rounds = 0
let violations = 0
for (; performance.now() < deadline; rounds++) {
  const mode = modes[rounds % modes.length]
  const round = await runRound(seed + rounds, mode)
  calls += round.calls
  if (round.violations.length === 0) continue
  violations++
  console.log(`\nVIOLATION with --seed ${seed + rounds} --mode ${mode}\n${round.violations.join('\n')}`)
  console.log(`last calls:\n${round.trace.join('\n')}`)
  if (!values['keep-going']) break
}
console.log(`${calls} calls in ${rounds} rounds, ${violations} rounds with violations`)
process.exit(violations > 0 ? 1 : 0)
