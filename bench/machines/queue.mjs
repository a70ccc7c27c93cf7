/**
 * Jobs per second through a queue: short jobs on workers in separate processes, with a Redis for this run, which is killed
 * and restarted during half of them. Needs Debian's redis-server.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { JobQueue } from '@nacre/queue'
import { median, time } from '../stats.mjs'

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
const HOSTS = ['host-0', 'host-1', 'host-2', 'host-3']
const CONCURRENCY = 4
/** Jobs that run one after another. */
const SINGLE = 50
/** Milliseconds while Redis is down. */
const OUTAGE = 1000

/** Rows of a table: the quantity, and its value. */
export async function measure({ quick }) {
  const jobs = quick ? 200 : 2000
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-bench-queue-'))
  const port = await freePort()
  let redis = startRedis(port, base)
  const url = `redis://127.0.0.1:${port}`
  const workers = await Promise.all(HOSTS.map((host) => startWorker(host, url, base)))
  const queue = new JobQueue({ name: 'bench', redis: url })
  try {
    const alone = []
    for (let n = 0; n < SINGLE; n++) alone.push(await time(() => run(queue, 1)))
    const additions = []
    const seconds = (await time(() => run(queue, jobs, additions))) / 1000
    const broken = await time(async () => {
      const running = run(queue, jobs)
      await sleep(seconds * 300)
      redis.kill('SIGKILL')
      await once(redis, 'exit')
      await sleep(OUTAGE)
      redis = startRedis(port, base)
      await running
    })
    const { completed, failed } = await queue.counts()
    const all = 2 * jobs + SINGLE
    if (completed !== all || failed > 0) throw new Error(`${completed} of ${all} completed, ${failed} failed`)
    return [
      ['setting', `${HOSTS.length} workers of ${CONCURRENCY} jobs, \`true\` as the job`],
      ['jobs per second', `${Math.round(jobs / seconds)}`],
      [
        'jobs per second, Redis killed and down for 1 s',
        `${Math.round(jobs / (broken / 1000))}, all completed`,
      ],
      ['addition, p50', `${median(additions).toFixed(2)} ms`],
      ['from the addition to the end, one job alone, p50', `${median(alone).toFixed(1)} ms`],
    ]
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
}

/** Adds jobs one after another, and waits for all of them. `additions` receives the times. */
async function run(queue, count, additions = []) {
  const ids = []
  for (let n = 0; n < count; n++)
    additions.push(await time(async () => ids.push((await queue.add({ command: 'true' })).id)))
  await Promise.all(ids.map((id) => queue.wait(id)))
}

function startRedis(port, directory) {
  const words = [
    '--port',
    port,
    '--dir',
    directory,
    '--save',
    '',
    '--appendonly',
    'yes',
    '--appendfsync',
    'always',
  ]
  return spawn('redis-server', words, { stdio: 'ignore' })
}

async function startWorker(host, url, base) {
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
  const child = spawn(process.execPath, [main, ...words, '--concurrency', `${CONCURRENCY}`], {
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
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
  server.close()
  await once(server, 'close')
  return String(port)
}
