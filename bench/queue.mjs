/**
 * Jobs per second through a queue: short jobs over workers in processes of their own, with a Redis of this run.
 *
 *   node bench/queue.mjs [--jobs=2000] [--workers=4] [--concurrency=4]
 *
 * Prints one line: jobs per second from the first addition to the last end, the time of an addition, and the time from an
 * addition to the end of a job in an idle queue. Needs Debian's redis-server.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { JobQueue } from 'nacre/queue'
import { median } from './stats.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const given = Object.fromEntries(
  process.argv.slice(2).map((argument) => argument.replace(/^--/, '').split('=')),
)
const jobs = Number(given.jobs ?? 2000)
const hosts = Array.from({ length: Number(given.workers ?? 4) }, (_, index) => `host-${index}`)
const concurrency = given.concurrency ?? '4'
/** Jobs that run one after the other. */
const SINGLE = 50

const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-bench-queue-'))
const port = await freePort()
const redis = spawn('redis-server', ['--port', port, '--dir', base, '--save', '', '--appendonly', 'yes'], {
  stdio: 'ignore',
})
const url = `redis://127.0.0.1:${port}`
const workers = await Promise.all(hosts.map(startWorker))
const queue = new JobQueue({ name: 'bench', redis: url })
try {
  const times = []
  for (let n = 0; n < SINGLE; n++) times.push(await timeOf(runOne))
  const begun = performance.now()
  const additions = []
  const ids = []
  for (let n = 0; n < jobs; n++)
    additions.push(await timeOf(async () => ids.push((await queue.add({ command: 'true' })).id)))
  await Promise.all(ids.map((id) => queue.wait(id)))
  const seconds = (performance.now() - begun) / 1000
  const { completed, failed } = await queue.counts()
  if (completed !== jobs + SINGLE || failed > 0) throw new Error(`${completed} completed, ${failed} failed`)
  console.log(
    `${jobs} jobs, ${hosts.length} workers of ${concurrency}: ${Math.round(jobs / seconds)} jobs/s, addition ` +
      `${median(additions).toFixed(2)} ms, one job alone ${median(times).toFixed(1)} ms`,
  )
} finally {
  await queue.close()
  for (const worker of workers) {
    worker.kill('SIGTERM')
    await once(worker, 'exit')
  }
  redis.kill('SIGKILL')
  await once(redis, 'exit')
  rmSync(base, { recursive: true, force: true })
}

async function runOne() {
  const { id } = await queue.add({ command: 'true' })
  await queue.wait(id)
}

async function timeOf(run) {
  const begun = performance.now()
  await run()
  return performance.now() - begun
}

async function startWorker(host) {
  const words = [
    'worker',
    '--redis',
    url,
    '--queue',
    'bench',
    '--root',
    path.join(base, host),
    '--host-id',
    host,
  ]
  const main = path.join(root, 'dist/cli/main.js')
  const child = spawn(process.execPath, [main, ...words, '--concurrency', concurrency], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('nacre takes jobs')) return child
  }
  throw new Error(`the worker of ${host} has ended`)
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return String(port)
}
