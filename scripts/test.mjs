/**
 * Runs every test on Node and on Bun, after a debug build.
 *
 *   node scripts/test.mjs
 *
 * Tests of what commands do say nothing about time: those of Node run beside those of Bun. All others measure stalls,
 * times or memory, which other tests on the same cores would lengthen: they run one file at a time, and alone.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** Beginnings of the names of files that say nothing about time, and of the exceptions. */
const PATIENT =
  /^__test__\/(cli|client|conformance|container|contract|deployment|jobs|options|package|readme|server)/
const IMPATIENT = /^__test__\/jobs\/(follow|speed)/

const files = readdirSync(path.join(root, '__test__'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
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

const together = [node(patient, '--fileParallelism', '--maxWorkers=2'), bun(patient)]
for (const runs of [together, [node(others)], [bun(others)]]) {
  const codes = await Promise.all(runs.map((one) => run(one, runs.length > 1)))
  if (codes.some((code) => code !== 0)) process.exit(1)
}

/** Runs one of them to its end and gives its exit code; what runs beside another prints when it has ended. */
async function run([name, program, args], beside) {
  const begun = performance.now()
  const child = spawn(path.join(root, program), args, {
    cwd: root,
    env: { ...process.env, NACRE_NATIVE: 'debug', ...(beside && { NACRE_TEST_BESIDE: 'yes' }) },
    stdio: ['ignore', beside ? 'pipe' : 'inherit', beside ? 'pipe' : 'inherit'],
  })
  const printed = []
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => printed.push(data))
  const [code] = await once(child, 'close')
  process.stdout.write(Buffer.concat(printed))
  const seconds = ((performance.now() - begun) / 1000).toFixed(0)
  console.log(`\n${name}${beside ? ', beside the other' : ''}: exit code ${code} after ${seconds} s\n`)
  return code ?? 1
}
