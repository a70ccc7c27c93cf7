/**
 * Runs the tests on Node and on Bun, after a debug build.
 *
 *   node scripts/test.mjs           the projects of `npm test`
 *   node scripts/test.mjs --rest    the others, `npm run test:rest`
 *
 * scripts/test-projects.mjs describes the projects. Node and Bun run a project concurrently, since tests mostly wait. A
 * failed test is never run again. A measurement that the machine has disturbed may be repeated
 * (`__test__/helpers/remeasure.ts`): each repetition is printed, and the last line of each runtime has their number.
 * Failures are printed again at the end, so that a truncated log still has them.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Failures } from './test-failures.mjs'
import { projects } from './test-projects.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const vitest = path.join(root, 'node_modules/.bin/vitest')
const bun = path.join(root, 'node_modules/.bin/bun')

const { values } = parseArgs({ options: { rest: { type: 'boolean', default: false } } })
for (const project of projects.filter(({ run }) => run === (values.rest ? 'rest' : 'test'))) {
  console.log(`== ${project.name}: ${project.checks}`)
  const runs = await Promise.all([runOnNode(project), ...(project.bun ? [runOnBun(project)] : [])])
  const failed = runs.filter(({ code }) => code !== 0)
  for (const { name, failures } of failed) console.log([`== Failures on ${name}:`, ...failures].join('\n'))
  if (failed.length > 0) process.exit(1)
}

function runOnNode({ name }) {
  return run('Node', vitest, ['run', '--project', name], {})
}

function runOnBun({ name, env }) {
  const args = ['test', '--timeout', '20000', '--only-failures', ...filesOf(name)]
  return run('Bun', bun, args, env)
}

/** The files of a project. Bun has no projects, so vitest lists them. */
function filesOf(name) {
  const list = ['list', '--filesOnly', '--json', '--project', name]
  const found = JSON.parse(execFileSync(vitest, list, { cwd: root, encoding: 'utf8' }))
  return found.map(({ file }) => path.relative(root, file)).sort()
}

/**
 * Runs a program to its end, prefixing each line that it prints with a name. Resolves to its exit code and the lines about
 * failures.
 */
async function run(name, program, args, env) {
  const begun = performance.now()
  const child = spawn(program, args, {
    cwd: root,
    env: { ...process.env, NACRE_NATIVE: 'debug', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let repeated = 0
  const failures = new Failures()
  const say = (line) => {
    if (line.startsWith('measured again: ')) repeated++
    failures.read(line)
    console.log(`${name.padEnd(4)} | ${line}`)
  }
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', say)
  const [code] = await once(child, 'close')
  const seconds = ((performance.now() - begun) / 1000).toFixed(0)
  say(`exit code ${code} after ${seconds} s, measurements repeated: ${repeated}`)
  return { name, code: code ?? 1, failures: failures.lines }
}
