/**
 * Runs the tests and checks, and ends with a table of what passed.
 *
 *   node scripts/test.mjs [--strict] [gate | check | full | STEP...]      default: gate
 *
 * scripts/test/steps.mjs lists the rings and steps. Two steps run at once. All steps run, also after a failure.
 *
 * A test file that fails runs once more, alone. If it passes then, it is flaky: listed at the end, and not a failure unless
 * --strict is given. Nothing else is retried.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { report } from './test/report.mjs'
import { RINGS, steps } from './test/steps.mjs'

/** Steps that run at once. */
const SLOTS = 2

/** Of each command, against hanging. */
const LIMIT_MS = 20 * 60_000

/** Lines of a command's output that are kept. */
const KEPT_LINES = 5000

/** Free space of a file system in memory, above which it is used. */
const MIN_MEMORY_BYTES = 4e9

/** More failed files than this have one cause, and are not run again. */
const MOST_REPEATED = 10

process.chdir(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
const { values, positionals } = parseArgs({
  options: { strict: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const chosen = choose(positionals.length === 0 ? ['gate'] : positionals)

// What a killed test leaves is removed at the end.
const temporary = makePublic(mkdtempSync(path.join(os.tmpdir(), 'nt-')))
const memory = hasMemory() ? makePublic(mkdtempSync('/dev/shm/nt-')) : temporary
// Interactive shells of tests write their history.
process.env.HISTFILE = path.join(temporary, 'history')
// A build that is made once needs no files for the next one: they would take more disk than everything else.
if (process.env.CI) process.env.CARGO_INCREMENTAL ??= '0'
const running = new Set()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    for (const child of running) kill(child)
    removeTemporary()
    process.exit(1)
  })
}

const results = await runAll()
removeTemporary()
process.exitCode = report(results, values.strict) ? 0 : 1

function removeTemporary() {
  // A program that is ending may still make files there.
  const options = { recursive: true, force: true, maxRetries: 5 }
  for (const directory of [temporary, memory]) rmSync(directory, options)
}

/** Whether there is room for temporary files in memory, and programs among them may be executed. */
function hasMemory() {
  const mount = readFileSync('/proc/mounts', 'utf8').match(/^\S+ \/dev\/shm tmpfs (\S+)/m)
  if (!mount || /(^|,)(ro|noexec)(,|$)/.test(mount[1])) return false
  const { bavail, bsize } = statfsSync('/dev/shm')
  return bavail * bsize > MIN_MEMORY_BYTES && isWritable('/dev/shm')
}

function isWritable(directory) {
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Other users, as which some tests run programs, may traverse the directory. */
function makePublic(directory) {
  chmodSync(directory, 0o711)
  return directory
}

function choose(words) {
  const ring = RINGS.indexOf(words[0])
  if (ring >= 0) return steps.filter((step) => RINGS.indexOf(step.ring) <= ring)
  const unknown = words.find((word) => !steps.some(({ name }) => name === word))
  if (unknown === undefined) return steps.filter(({ name }) => words.includes(name))
  const names = [...RINGS, ...steps.map(({ name }) => name)].join(', ')
  console.error(`There is no ring or step '${unknown}'. There are: ${names}.`)
  process.exit(2)
}

/** Runs the steps in their order, as many at once as there are slots. A failed build leaves nothing to test. */
async function runAll() {
  const results = []
  const active = new Set()
  for (const step of chosen) {
    while (active.size >= (step.alone ? 1 : SLOTS)) await Promise.race(active)
    if (results.some(({ name, failures }) => name === 'build' && failures.length > 0)) break
    const run = perform(step).then((result) => {
      results.push(result)
      active.delete(run)
    })
    active.add(run)
    if (step.alone) await run
  }
  await Promise.all(active)
  return results.sort((one, other) => chosen.indexOf(one.step) - chosen.indexOf(other.step))
}

/** Runs a step to its end. Everything that goes wrong is in the result. */
async function perform(step) {
  const begun = performance.now()
  // Steps that run at once do not meet in the default directory of durable jobs.
  const TMPDIR = makePublic(mkdtempSync(path.join(step.inMemory ? memory : temporary, `${step.name}-`)))
  const command = (argv, env) => runCommand(step.name, argv, { TMPDIR, ...env })
  const result = { step, name: step.name, passed: 0, failures: [], flaky: [] }
  try {
    for (const name of step.debian ?? []) installTool(name)
    for (const argv of step.run ?? []) {
      const { code, lines } = await command(argv)
      if (code !== 0) result.failures.push({ test: argv.join(' '), message: lines.slice(-15).join('\n') })
    }
    if (step.tests && result.failures.length === 0) await runTests(step.tests, command, result)
  } catch (error) {
    result.failures.push({ test: '', message: error.message })
  }
  result.seconds = (performance.now() - begun) / 1000
  return result
}

async function runTests({ runner, ...tests }, command, result) {
  const run = (files) => runner({ ...tests, ...files }, command, mkdtempSync(path.join(temporary, 'report-')))
  const { passed, failures } = await run({})
  result.passed = passed
  const files = [...new Set(failures.map(({ file }) => file))]
  if (files.includes(undefined) || files.length > MOST_REPEATED) {
    result.failures = failures
    return
  }
  for (const file of files) {
    const again = await run({ files: [file] })
    if (again.failures.length > 0) result.failures.push(...again.failures)
    else result.flaky.push(...failures.filter((failure) => failure.file === file))
  }
}

/** Installs a program from a Debian package, as root; `name` as in steps.mjs. A server that comes with it is not started. */
function installTool(name) {
  const [debian, program = debian] = name.split(':')
  if (process.env.PATH.split(':').some((directory) => existsSync(path.join(directory, program)))) return
  const apt = (...args) =>
    spawnSync('apt-get', args, {
      stdio: ['ignore', 'inherit', 'inherit'],
      env: { ...process.env, RUNLEVEL: '1' },
    }).status === 0
  const install = () => apt('install', '-y', '--no-install-recommends', debian)
  if (process.getuid() === 0 && (install() || (apt('update') && install()))) return
  throw new Error(`This step needs ${program}: run 'apt-get install ${debian}' as root.`)
}

/** Runs a command in a process group of its own, and prints its lines behind the name of the step. */
async function runCommand(name, [program, ...args], env = {}) {
  const options = { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true }
  const child = spawn(program, args, options)
  running.add(child)
  let late = false
  const timer = setTimeout(() => {
    late = true
    kill(child)
  }, LIMIT_MS)
  const lines = []
  const say = (line) => {
    lines.push(stripVTControlCharacters(line))
    if (lines.length > KEPT_LINES) lines.shift()
    console.log(`${name.padEnd(12)} | ${line}`)
  }
  for (const input of [child.stdout, child.stderr]) createInterface({ input }).on('line', say)
  try {
    const [code] = await once(child, 'close')
    if (late) say(`killed after ${LIMIT_MS / 60_000} minutes`)
    return { code: code ?? 1, lines }
  } finally {
    clearTimeout(timer)
    running.delete(child)
  }
}

function kill({ pid }) {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
