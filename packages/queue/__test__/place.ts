/** A queue with its own Redis, and workers in separate processes that can be killed and stopped. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { JobQueue, type JobQueueOptions, type JobWorkerOptions, type QueueJob } from '@nacre/queue'
import { Sandbox } from 'nacre'
import { expect } from 'vitest'
import { expectNoProcess, QUICK } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { type RedisServer, startRedis } from '../../../__test__/helpers/redis.js'
import { until } from '../../../__test__/helpers/until.js'

const PROGRAM = path.join(__dirname, 'worker-program.mjs')
const root = path.join(__dirname, '../../..')

/** Short enough for tests to wait until they are over. */
export const TIMES = { lease: 3000, lockDuration: 1000, stalledInterval: 500, progressInterval: 50 }

export interface WorkerProcess {
  pid: number
  output(): string
  printed(text: string, limit?: number): Promise<void>
  signal(signal: NodeJS.Signals): void
  /** Ends it, and waits for its end. */
  end(signal?: NodeJS.Signals): Promise<number | string>
  ended: Promise<number | string>
}

export interface QueuePlace {
  redis: RedisServer
  queue: JobQueue
  /** Another queue object on the same Redis. */
  open(options?: Partial<JobQueueOptions>): JobQueue
  /** Starts a worker and waits until it is ready. Its jobs are in a directory of its host. */
  worker(host: string, options?: Partial<JobWorkerOptions>): Promise<WorkerProcess>
  /** Starts a worker without waiting. */
  launch(host: string, options?: Partial<JobWorkerOptions>): WorkerProcess
  rootOf(host: string): string
  /** A command that first records its start as a line in a file. */
  counted(id: string, command: string): string
  /** The number of a job's processes that have started. */
  starts(id: string): number
  /** Waits until that many have started. */
  untilStarted(id: string, times?: number): Promise<void>
  base: string
  tag: string
}

interface PlaceOptions {
  append?: 'no' | 'everysec' | 'always'
}

let places = 0

/** Runs a test. Afterwards all jobs are cancelled, and no process may be left. */
export async function withQueue(
  test: (place: QueuePlace) => Promise<void>,
  { append = 'no' }: PlaceOptions = {},
): Promise<void> {
  places++
  const tag = `nacre-queued-${process.pid}-${places}`
  const base = mkdtempSync(path.join(QUICK, `nacre-queue-${process.pid}-`))
  const data = path.join(base, 'redis')
  mkdirSync(data)
  const redis = await startRedis(data, append)
  const workers: WorkerProcess[] = []
  const hosts = new Set<string>()
  const queues: JobQueue[] = []
  const starts = path.join(base, 'starts')
  const open = (options: Partial<JobQueueOptions> = {}): JobQueue => {
    const queue = new JobQueue({ name: 'test', redis: redis.url, ...options })
    queues.push(queue)
    return queue
  }
  const rootOf = (host: string): string => path.join(base, `jobs-${host}`)
  const launch = (host: string, options: Partial<JobWorkerOptions> = {}): WorkerProcess => {
    hosts.add(host)
    const settings = {
      ...TIMES,
      name: 'test',
      redis: redis.url,
      host,
      root: rootOf(host),
      env: { NACRE_TEST_TAG: tag },
      ...options,
    }
    const file = path.join(base, `worker-${workers.length}.json`)
    writeFileSync(file, JSON.stringify(settings))
    const worker = startWorker(file)
    workers.push(worker)
    return worker
  }
  const count = (id: string): number =>
    read(starts)
      .split('\n')
      .filter((line) => line === id).length
  const place: QueuePlace = {
    redis,
    queue: open(),
    open,
    launch,
    worker: async (host, options) => {
      const worker = launch(host, options)
      await worker.printed('ready')
      return worker
    },
    rootOf,
    counted: (id, command) => `echo ${id} >> ${starts}; ${command}`,
    starts: count,
    untilStarted: async (id, times = 1) => {
      await until(
        () => count(id) >= times || undefined,
        () => `${id} started ${count(id)} times; ${workers.map((worker) => worker.output()).join('\n--\n')}`,
        15_000,
      )
    },
    base,
    tag,
  }
  try {
    await test(place)
    for (const worker of workers) await worker.end('SIGKILL')
    for (const host of hosts) await cancelAll(rootOf(host))
    await expectNoProcess(tag)
  } catch (error) {
    for (const [index, worker] of workers.entries()) console.error(`worker ${index}:\n${worker.output()}`)
    throw error
  } finally {
    for (const worker of workers) await worker.end('SIGKILL')
    for (const queue of queues) await queue.close()
    await redis.stop('SIGKILL')
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    rmSync(base, { recursive: true, force: true })
  }
}

/** The end of a job, with a time limit. */
export async function ended(queue: JobQueue, id: string, limit = 15_000): Promise<QueueJob> {
  return queue.wait(id, { signal: AbortSignal.timeout(limit) })
}

/** The complete output of an attempt. */
export async function outputOf(
  queue: JobQueue,
  id: string,
  options: { follow?: boolean; cursor?: number; attempt?: number } = {},
): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const { raw } of queue.logs(id, { ...options, encoding: 'buffer' })) parts.push(raw)
  return Buffer.concat(parts)
}

async function cancelAll(jobsRoot: string): Promise<void> {
  await using sandbox = new Sandbox({ jobsRoot })
  for (const { jobId } of await sandbox.jobs.list()) await sandbox.jobs.cancel(jobId, { graceMs: 0 })
}

/** Its output goes to a file: Bun does not always report the end of a killed child's pipe. */
function startWorker(settings: string): WorkerProcess {
  const file = `${settings}.out`
  const output = openSync(file, 'w')
  const child: ChildProcess = spawn(process.execPath, [PROGRAM, settings], {
    cwd: root,
    env: { ...process.env, NACRE_NATIVE: process.env.NACRE_NATIVE ?? 'debug' },
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  let end: number | string | undefined
  const finished = new Promise<number | string>((resolve) => {
    child.on('exit', (code, signal) => {
      end = code ?? signal ?? 'nothing'
      resolve(end)
    })
  })
  const worker: WorkerProcess = {
    pid: child.pid ?? 0,
    output: () => read(file),
    printed: async (wanted, limit = 15_000) => {
      await until(
        () => read(file).includes(wanted) || end !== undefined || undefined,
        () => `not printed: ${wanted}, but: ${read(file)}`,
        limit,
      )
      expect(read(file)).toContain(wanted)
    },
    signal: (signal) => void child.kill(signal),
    end: async (signal = 'SIGTERM') => {
      if (end !== undefined) return end
      child.kill('SIGCONT')
      child.kill(signal)
      return finished
    },
    ended: finished,
  }
  return worker
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
