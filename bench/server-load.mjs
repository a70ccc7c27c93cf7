/**
 * A server under load: many clients for a while, each of which checks its own bytes.
 *
 *   node bench/server-load.mjs [--clients=200] [--seconds=60]
 *
 * A third of the work is exec, a third streams, a third processes with their logs. At the end nothing may be lost or mixed
 * up, no process left, and memory flat. Afterwards one client measures what HTTP on loopback adds to an exec. Exits with 1
 * if any check fails. The server is a separate process, so that the clients' work does not count as its own.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const tag = `nacre-load-${process.pid}`

/** Maximum growth of the server's memory between the middle and the end, in MiB. */
const MOST_GROWTH_MIB = 64
/** Maximum time that HTTP may add to the p50 of an exec, in ms. */
const MOST_ADDED_MS = 1

const given = Object.fromEntries(
  process.argv.slice(2).map((argument) => argument.replace(/^--/, '').split('=')),
)
const clients = Number(given.clients ?? 200)
const seconds = Number(given.seconds ?? 60)

const program = `
  const { Sandbox } = require('nacre')
  const { serve } = require('@nacre/server')
  serve(new Sandbox({ cwd: '/tmp', env: { NACRE_LOAD_TAG: '${tag}' } }), { port: 0 }).then(({ url }) => console.log(url))
`

/** The kinds of client work; each returns a string if the reply was wrong. */
const work = {
  async exec(session, mark) {
    const { stdout, exitCode } = await session.exec(`echo ${mark}; exit 3`)
    return stdout === `${mark}\n` && exitCode === 3 ? undefined : JSON.stringify([stdout, exitCode])
  },
  async stream(session, mark) {
    const lines = []
    for await (const line of session.execStream(`for i in {1..200}; do echo ${mark} $i; done`).lines())
      lines.push(line)
    const wrong = lines.findIndex((line, index) => line !== `${mark} ${index + 1}`)
    return lines.length === 200 && wrong < 0 ? undefined : `${lines.length} lines, wrong at ${wrong}`
  },
  async process(session, mark) {
    const started = await session.startProcess(`: load-work; for i in {1..50}; do echo ${mark} $i; done`)
    let text = ''
    for await (const event of started.output()) if (event.type === 'stdout') text += event.data
    const expected = Array.from({ length: 50 }, (_, index) => `${mark} ${index + 1}\n`).join('')
    return text === expected ? undefined : `${text.length} characters`
  },
}

const times = { exec: [], stream: [], process: [] }
const faults = []

const server = spawn(process.execPath, ['-e', program], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
const [url] = await once(createInterface(server.stdout), 'line')
try {
  const begun = performance.now()
  const end = begun + seconds * 1000
  const middle = memoryAt(begun + (seconds * 1000) / 2)
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index, end)))
  const growth = memoryOf(server.pid) - (await middle)
  const left = tagged().filter((text) => text.includes('load-work'))
  for (const [kind, list] of Object.entries(times)) report(kind, list)
  console.log(
    `memory of the server: ${memoryOf(server.pid).toFixed(0)} MiB, ${growth.toFixed(0)} MiB more than at half time`,
  )
  if (left.length > 0) faults.push(`${left.length} processes left`)
  if (growth > MOST_GROWTH_MIB) faults.push(`memory grew by ${growth.toFixed(0)} MiB`)
  const added = await addedByHttp()
  console.log(`HTTP adds ${added.toFixed(2)} ms to an exec (p50)`)
  if (added > MOST_ADDED_MS) faults.push(`HTTP adds ${added.toFixed(2)} ms`)
} finally {
  server.kill('SIGTERM')
  await once(server, 'exit')
}
if (tagged().length > 0) faults.push(`${tagged().length} processes left after the end of the server`)
for (const fault of faults.slice(0, 20)) console.log(`NOT AS IT SHOULD BE: ${fault}`)
console.log(faults.length === 0 ? 'nothing lost, nothing mixed up, nothing left' : `${faults.length} faults`)
process.exitCode = faults.length === 0 ? 0 : 1

/** Runs one client in its own session, until the time is over. */
async function client(index, end) {
  const sandbox = new SandboxClient({ url })
  try {
    const session = await sandbox.createSession({ id: `client-${index}` })
    for (let round = 0; performance.now() < end; round++) {
      const mark = `${index}-${round}`
      const kind = Object.keys(times)[(index + round) % 3]
      const begun = performance.now()
      const fault = await work[kind](session, mark)
      times[kind].push(performance.now() - begun)
      if (fault) faults.push(`${kind} ${mark}: ${fault}`)
    }
  } catch (error) {
    faults.push(`client ${index}: ${error}`)
  } finally {
    await sandbox.destroy().catch((error) => faults.push(`client ${index}: ${error}`))
  }
}

async function addedByHttp() {
  const local = new Sandbox({ cwd: '/tmp' })
  const remote = new SandboxClient({ url })
  const here = []
  const there = []
  for (let round = 0; round < 600; round++) {
    here.push(await timed(() => local.exec('true')))
    there.push(await timed(() => remote.exec('true')))
  }
  await Promise.all([local.destroy(), remote.destroy()])
  return quantile(there.slice(100), 0.5) - quantile(here.slice(100), 0.5)
}

async function timed(action) {
  const begun = performance.now()
  await action()
  return performance.now() - begun
}

function report(kind, list) {
  const [p50, p99] = [0.5, 0.99].map((share) => quantile(list, share).toFixed(1))
  console.log(`${kind}: ${list.length} times, p50 ${p50} ms, p99 ${p99} ms`)
}

function quantile(list, share) {
  const sorted = list.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

async function memoryAt(time) {
  await new Promise((resolve) => setTimeout(resolve, time - performance.now()))
  return memoryOf(server.pid)
}

/** MiB. */
function memoryOf(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024
}

/** The command lines of processes that the sandbox started and that still exist. */
function tagged() {
  return readdirSync('/proc').flatMap((name) => {
    try {
      if (!/^\d+$/.test(name) || !readFileSync(`/proc/${name}/environ`, 'latin1').includes(tag)) return []
      return [readFileSync(`/proc/${name}/cmdline`, 'latin1')]
    } catch {
      return []
    }
  })
}
