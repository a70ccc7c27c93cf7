/**
 * A storm on durable jobs: three programs start, read, cancel, remove and prune jobs of three ids at random, while programs
 * and supervisors are killed.
 *
 *   node scripts/job-storm.mjs [--seed N] [--seconds N] [--kind native|dash|bash|busybox]
 *
 * Needs a debug build (`node scripts/setup.mjs --debug`). Without --kind, the kinds that this machine has share the time.
 * Each job prints its name and a token, so its output and its status show whether they can be true. At the end nothing may
 * be left: no process, no directory, no control group. Prints what is wrong, and exits with 1.
 */
import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createRandom } from './fuzz/random.mjs'
import { carries, entries, numbers, read, siblingGroups } from './fuzz/world.mjs'

process.env.NACRE_NATIVE ??= 'debug'
const { Sandbox } = await import('nacre')
const { createRemoteJobs } = await import('@nacre/remote-jobs')

const FILE = fileURLToPath(import.meta.url)

/** The commands: what each prints after its first line, and how it ends by itself. */
const COMMANDS = {
  quick: {
    text: 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; done; echo end; exit 3',
    code: 3,
    lines: 300,
  },
  dies: { text: 'echo end; kill -SEGV $$', signal: 'SIGSEGV' },
  leaves: { text: '{ sleep 0.2; echo end; } & exit 4', code: 4, isLate: true },
  long: { text: 'exec sleep 600' },
  late: { text: 'exec sleep 600', timeout: 150 },
  stubborn: { text: "trap '' TERM; while :; do sleep 0.05; done" },
}

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: process.env.NACRE_SEED ?? String(Date.now() % 1_000_000_000) },
    seconds: { type: 'string', default: '60' },
    kind: { type: 'string' },
    base: { type: 'string' },
  },
})
const seed = Number(values.seed)
if (values.base === undefined) await runStorms()
else await runProgram(values.base, values.kind)

async function runStorms() {
  const all = ['native', ...['dash', 'bash', 'busybox'].filter((name) => which(name) !== undefined)]
  const kinds = values.kind === undefined ? all : [values.kind]
  console.log(`seed ${seed}`)
  for (const kind of kinds) {
    const wrong = await runStorm(kind, (Number(values.seconds) * 1000) / kinds.length)
    if (wrong.length === 0) continue
    console.log(`WRONG with --seed ${seed} --kind ${kind}\n${wrong.join('\n')}`)
    process.exit(1)
  }
  process.exit(0)
}

/** One storm. Returns what was wrong. */
async function runStorm(kind, milliseconds) {
  const random = createRandom(seed)
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-storm-'))
  const tag = path.basename(base)
  const jobs = openJobs(kind, base)
  const wrong = []
  const programs = new Set()
  const deadline = performance.now() + milliseconds
  const isOver = () => performance.now() > deadline || wrong.length > 0
  let [calls, starts] = [0, 0]
  const launch = () => {
    const args = [FILE, '--base', base, '--kind', kind, '--seed', String(random.below(2 ** 30))]
    const child = spawn(process.execPath, args, { detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
    programs.add(child)
    child.stdout.setEncoding('utf8').on('data', (text) => {
      calls += text.match(/^\.$/gm)?.length ?? 0
      starts += text.match(/^\+$/gm)?.length ?? 0
      wrong.push(...text.split('\n').filter((line) => line.startsWith('{')))
    })
    child.on('exit', (_, signal) => {
      programs.delete(child)
      if (signal !== 'SIGKILL') wrong.push('a program has ended by itself')
      else if (!isOver()) launch()
    })
  }
  for (let count = 0; count < 3; count++) launch()
  while (!isOver()) {
    await sleep(random.below(400))
    if (random.chance(0.7)) killSupervisor(path.join(base, 'jobs', `${tag}-${random.below(3)}`), base)
    // With its calls to the shell, or alone.
    else if (random.chance(0.3)) kill(random.pick([...programs]).pid * random.pick([1, -1]))
  }
  for (const { pid } of programs) kill(-pid)
  // A start that a killed program has requested may still be under way.
  const limit = performance.now() + 10_000
  let left = []
  do {
    for (const { jobId } of await jobs.list()) {
      await jobs.cancel(jobId, { graceMs: 0 }).catch(unlessRemoved)
      await jobs.remove(jobId).catch(unlessRemoved)
    }
    left = leftovers(base, tag)
  } while (left.length > 0 && performance.now() < limit)
  wrong.push(...left)
  if (starts === 0) wrong.push('no job has started')
  console.log(`${kind}: ${calls} calls, ${starts} jobs`)
  if (wrong.length === 0) rmSync(base, { recursive: true })
  return wrong
}

/** Kills the supervisor of a job, and notes that its job may have crashed. */
function killSupervisor(directory, base) {
  const { pid, startTime, command } = parse(read(path.join(directory, 'meta.json')))
  if (pid === undefined || read(`/proc/${pid}/stat`).split(') ').at(-1).split(' ')[19] !== String(startTime))
    return
  appendFileSync(path.join(base, 'killed'), `${tokenIn(command)}\n`)
  kill(pid)
}

function leftovers(base, tag) {
  return [
    ...numbers('/proc')
      .filter((pid) => pid !== process.pid && carries(tag, pid))
      .map((pid) => `process ${pid} ${read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')}`),
    // The script leaves parts of interrupted calls for a day.
    ...entries(path.join(base, 'jobs')).filter((name) => !name.startsWith('@')),
    ...siblingGroups().filter((name) => name.includes(tag)),
  ].map((name) => `left behind: ${name}`)
}

/** The jobs of a storm. Everything that they start has the storm's name in its environment. */
function openJobs(kind, base) {
  const jobsRoot = path.join(base, 'jobs')
  const env = { NACRE_STORM: path.basename(base) }
  if (kind === 'native')
    return new Sandbox({ jobsRoot, stateDir: path.join(base, 'state'), cwd: '/', env }).jobs
  const links = path.join(base, 'bin')
  if (!existsSync(links)) {
    mkdirSync(links)
    if (kind === 'busybox') {
      execFileSync(which(kind), ['--install', '-s', links])
      // Debian's has none.
      const flock = path.join(links, 'flock')
      if (!existsSync(flock)) symlinkSync(which('flock'), flock)
    } else symlinkSync(which(kind), path.join(links, 'sh'))
  }
  env.PATH = kind === 'busybox' ? links : `${links}:${process.env.PATH}`
  const executeCommand = (command) =>
    new Promise((resolve) => {
      const child = spawn('sh', ['-c', command], { cwd: '/', env, stdio: ['ignore', 'pipe', 'ignore'] })
      let result = ''
      child.stdout.setEncoding('utf8').on('data', (text) => {
        result += text
      })
      child.on('close', (exitCode) => resolve({ exitCode, result }))
    })
  return createRemoteJobs({ process: { executeCommand } }, { jobsRoot, maxPollInterval: 200 })
}

/** One of the programs: calls at random, until it is killed. */
async function runProgram(base, kind) {
  const random = createRandom(seed)
  const jobs = openJobs(kind, base)
  const tag = path.basename(base)
  const report = (call, complaint, seen) =>
    process.stdout.write(`\n${JSON.stringify({ call, complaint, seen })}\n`)
  const look = async (id) => {
    const { raw, status } = await jobs.read(id)
    const complaint = judge(raw, status, kind, () => read(path.join(base, 'killed')))
    if (complaint) report('read', complaint, { raw: raw.slice(-200), status })
    return { raw, token: tokenIn(raw), status }
  }
  const calls = {
    async start(id) {
      const processName = random.pick(Object.keys(COMMANDS))
      const { text, timeout = 0 } = COMMANDS[processName]
      const token = `token-${random.below(2 ** 30).toString(36)}x${process.pid}`
      const command = `echo ${processName} ${token}; ${text}`
      await jobs.start({ jobId: id, command, timeout, processName })
      process.stdout.write('+\n')
    },
    read: look,
    async status(id) {
      const status = await jobs.status(id)
      if (status.state === 'running' && !status.alive) report('status', 'it runs and is not alive', status)
    },
    async list() {
      for (const { jobId, status, processName } of await jobs.list()) {
        const { code, signal } = COMMANDS[processName]
        const isWrong =
          (status.reason === 'exit' && status.exitCode !== code && !isGuess(kind, status)) ||
          (status.reason === 'signal' && status.signal !== signal)
        if (isWrong) report('list', 'a wrong end', { jobId, processName, status })
      }
    },
    async cancel(id) {
      const { token } = await look(id)
      await jobs.cancel(id, random.pick([undefined, { graceMs: 0 }, { graceMs: 100 }, { graceMs: 500 }]))
      const after = await look(id)
      if (token !== undefined && after.token === token && after.status.alive)
        report('cancel', 'it runs on', after)
    },
    async follow(id) {
      let text = ''
      const options = { lines: true, signal: AbortSignal.timeout(500) }
      for await (const { raw } of jobs.follow(id, 0, options)) text += raw
      const after = await look(id)
      // Another job may have taken its place.
      if (text !== after.raw && tokenIn(text) === after.token)
        report('follow', 'output after its end', { text: text.slice(-200), after })
    },
    wait: (id) => jobs.wait(id, { signal: AbortSignal.timeout(300) }),
    remove: (id) => jobs.remove(id),
    prune: () => jobs.prune(),
  }
  const weights = {
    ...{ start: 6, read: 4, status: 2, list: 2, cancel: 2, follow: 2, wait: 1, remove: 4, prune: 1 },
  }
  const allowed = {
    start: ['JOB_ALREADY_EXISTS', 'SPAWN_FAILED'],
    remove: ['JOB_NOT_FOUND', 'JOB_RUNNING'],
    list: [],
    prune: [],
  }
  const loop = async () => {
    for (;;) {
      const call = random.weighted(weights)
      process.stdout.write('.\n')
      await calls[call](`${tag}-${random.below(3)}`).catch((error) => {
        const { code, name, message, stack } = error
        if (name === 'AbortError' || (allowed[call] ?? ['JOB_NOT_FOUND']).includes(code)) return
        report(call, message, code ?? stack)
      })
      await sleep(random.below(20))
    }
  }
  await Promise.all([loop(), loop()])
}

/** Why an output and a status cannot be true together, or undefined. */
function judge(raw, status, kind, readKilled) {
  const { state, exitCode, signal, reason } = status
  if (state === 'running') return status.alive ? undefined : 'it runs and is not alive'
  const isNatural = reason === 'exit' || reason === 'signal'
  const [, name, token] = /^(\w+) (token-\w+)\n/.exec(raw) ?? []
  if (name === undefined) return raw !== '' || isNatural ? 'the beginning is lost' : undefined
  const { code = null, signal: own = null, isLate, timeout, lines = 0 } = COMMANDS[name]
  if (state === 'crashed') return readKilled().includes(token) ? undefined : 'its supervisor was not killed'
  if (isNatural) {
    if ((exitCode !== code || signal !== own) && !isGuess(kind, status)) return 'a wrong end'
    const body = Array.from({ length: lines }, (_, index) => `${index + 1}\n`).join('')
    // A cancel may have ended what it left behind.
    return isLate || raw === `${name} ${token}\n${body}end\n` ? undefined : 'output is lost'
  }
  if (reason === 'timeout' && timeout === undefined) return 'it has no timeout'
  return ['SIGTERM', 'SIGKILL'].includes(signal) || isGuess(kind, status)
    ? undefined
    : 'it has ended by itself'
}

/** A bash that is called sh may reap its children too early to see a signal. */
function isGuess(kind, { exitCode }) {
  return kind === 'bash' && exitCode > 128
}

function tokenIn(text) {
  return /token-\w+/.exec(text)?.[0]
}

/** A call that a killed program has left may be removing a job. */
function unlessRemoved(error) {
  if (error.code !== 'JOB_NOT_FOUND') throw error
}

function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

function which(name) {
  const files = (process.env.PATH ?? '').split(':').map((directory) => path.join(directory, name))
  return files.find((file) => existsSync(file))
}
