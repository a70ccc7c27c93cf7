/**
 * Tests random operations on several concurrent sessions against a model of the expected state.
 *
 *   node scripts/fuzz.mjs [--seed N] [--seconds N] [--operations N] [--mode default|subreaper] [--kind KIND]
 *                         [--keep-going]
 *
 * --kind keeps only this kind of operations, like `workspace`. Without copy-on-write workspaces on this machine, that kind
 * is left out.
 *
 * Needs a debug build (`node scripts/setup.mjs --debug`). A round is a sandbox with three sessions and some dozens of
 * operations. The seed comes from --seed or NACRE_SEED; without either it is fresh. Round N of seed S is the same in every
 * run, except for the machine's timing. On a deviation, prints the seed and the shortest list of operations that still
 * shows it, and exits with 1.
 */
import { parseArgs } from 'node:util'

process.env.NACRE_NATIVE ??= 'debug'
const { createRandom } = await import('./fuzz/random.mjs')
const { KINDS, makeOperations } = await import('./fuzz/operations.mjs')
const { hasWorkspaces, MODES, runRound, warmUp } = await import('./fuzz/round.mjs')
const { shorten, show } = await import('./fuzz/shorten.mjs')

const SESSIONS = 3
const PER_ROUND = 60

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    seconds: { type: 'string', default: '60' },
    operations: { type: 'string' },
    mode: { type: 'string' },
    kind: { type: 'string' },
    'keep-going': { type: 'boolean', default: false },
  },
})
const seed = toNumber('seed', values.seed ?? process.env.NACRE_SEED ?? String(Date.now() % 1_000_000_000))
const deadline = performance.now() + toNumber('seconds', values.seconds) * 1000
const most =
  values.operations === undefined ? Number.POSITIVE_INFINITY : toNumber('operations', values.operations)
if (values.mode !== undefined && MODES[values.mode] === undefined) usage(`unknown mode: ${values.mode}`)
if (values.kind !== undefined && !KINDS.includes(values.kind)) usage(`unknown kind: ${values.kind}`)
const modes = values.mode === undefined ? Object.keys(MODES) : [values.mode]

console.log(`seed ${seed}`)
await warmUp()
const offered = (await hasWorkspaces()) ? KINDS : KINDS.filter((kind) => kind !== 'workspace')
const kinds = offered.filter((kind) => kind === (values.kind ?? kind))
if (kinds.length === 0) usage('this machine has no copy-on-write workspaces')
let done = 0
let deviations = 0
let rounds = 0
while (performance.now() < deadline && done < most) {
  const random = createRandom(seed + rounds)
  const mode = modes[rounds % modes.length]
  const round = {
    mode,
    sessions: SESSIONS,
    operations: makeOperations(random, Math.min(PER_ROUND, most - done), SESSIONS, { mode, kinds }),
  }
  const deviation = await runRound(round)
  rounds++
  done += round.operations.length
  if (deviation === undefined) continue
  deviations++
  console.log(`\nDEVIATION with --seed ${seed + rounds - 1} --mode ${round.mode}\n${deviation.message}`)
  const shortest = await shorten(round, deviation)
  console.log(show(shortest))
  if (!values['keep-going']) break
}
console.log(`${done} operations in ${rounds} rounds, ${deviations} deviations`)
process.exit(deviations > 0 ? 1 : 0)

function toNumber(name, text) {
  const number = Number(text)
  if (!Number.isInteger(number) || number < 0) usage(`--${name} needs a number: ${text}`)
  return number
}

function usage(message) {
  console.error(message)
  process.exit(2)
}
