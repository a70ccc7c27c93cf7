/**
 * Runs every test on Node and on Bun, after a debug build.
 *
 *   node scripts/test.mjs
 *
 * The two run side by side, since much of a test is waiting. Tests of what commands do say nothing about time: on Node
 * two files at a time. All others measure stalls, times or memory, which many tests on the same cores would lengthen:
 * one file at a time, and nothing else but the same on the other runtime.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** Beginnings of the names of files that say nothing about time, and of the exceptions. */
const PATIENT =
  /^__test__\/(cli|addon|client|conformance|consumers|container|contract|deployment|jobs|options|readme|scripts|server)/
const IMPATIENT = /^__test__\/jobs\/(follow|speed)/

const files = readdirSync(path.join(root, '__test__'), { recursive: true, encoding: 'utf8' })
  // The tests of the packages need a release build: `npm run test:install`.
  .filter((name) => name.endsWith('.test.ts') && !name.startsWith('packages/'))
  .map((name) => `__test__/${name}`)
  .sort()
const patient = files.filter((name) => PATIENT.test(name) && !IMPATIENT.test(name))
const others = files.filter((name) => !patient.includes(name))

const node = (names, ...more) => ['Node', 'node_modules/.bin/vitest', ['run', ...more, ...names]]
const bun = (names) => [
  'Bun',
  'node_modules/.bin/bun',
  ['test', '--timeout', '20000', '--only-failures', ...names],
]

const busy = { NACRE_TEST_BUSY: 'yes' }
await together(busy, node(patient, '--fileParallelism', '--maxWorkers=2'), bun(patient))
await together({}, node(others), bun(others))

/** Runs them at the same time, and ends this program when one has failed. */
async function together(env, ...runs) {
  const codes = await Promise.all(runs.map((one) => run(one, env)))
  if (codes.some((code) => code !== 0)) process.exit(1)
}

/** Runs one of them to its end, with its name before each line that it prints, and gives its exit code. */
async function run([name, program, args], env) {
  const begun = performance.now()
  const child = spawn(path.join(root, program), args, {
    cwd: root,
    env: { ...process.env, NACRE_NATIVE: 'debug', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const say = (line) => console.log(`${name.padEnd(4)} | ${line}`)
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', say)
  const [code] = await once(child, 'close')
  say(`exit code ${code} after ${((performance.now() - begun) / 1000).toFixed(0)} s`)
  return code ?? 1
}
