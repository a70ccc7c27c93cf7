/** Common options of all verbs for queues: Redis, the queue and its prefix. */
import { engineError, inTime } from 'nacre/internal'
import type { Command } from 'nacre/internal/cli'
import type { JobQueue, JobQueueOptions } from '../public.js'

export interface QueueOptions {
  redis?: string
  queue?: string
  prefix?: string
  json?: boolean
}

const DEFAULT_URL = 'redis://127.0.0.1:6379'
const DEFAULT_NAME = 'nacre'

/** Adds the options that workers have, too. */
export function withConnection(command: Command): Command {
  return command
    .option('--redis <url>', `the URL of Redis (default: $NACRE_REDIS_URL, or ${DEFAULT_URL})`)
    .option('--queue <name>', `the name of the queue (default: ${DEFAULT_NAME})`)
    .option('--prefix <text>', 'the prefix of all keys in Redis (default: bull)')
}

/** Adds the options of a verb. */
export function withQueue(command: Command): Command {
  return withConnection(command).option('--json', 'print JSON')
}

/** The options of a connection. */
export function connectionOf({ redis, queue, prefix }: QueueOptions): JobQueueOptions {
  return { redis: redis ?? process.env.NACRE_REDIS_URL ?? DEFAULT_URL, name: queue ?? DEFAULT_NAME, prefix }
}

/** Milliseconds in which Redis must answer a verb. A worker waits for as long as it takes. */
const ANSWER_TIMEOUT = 5000

/** Calls a function with a queue, and closes it afterwards. Rejects with CONNECTION_FAILED when Redis does not answer. */
export async function useQueue<T>(options: QueueOptions, use: (queue: JobQueue) => Promise<T>): Promise<T> {
  // Help and completion do without BullMQ.
  const { JobQueue } = await import('../index.js')
  await using queue = new JobQueue({ ...connectionOf(options), logger: reporter() })
  // Calls wait for Redis, however long it is away.
  const isThere = await inTime(
    ANSWER_TIMEOUT,
    queue.get('nacre').then(() => true),
  )
  if (isThere === undefined)
    throw engineError(
      'CONNECTION_FAILED',
      `Redis has not answered for ${ANSWER_TIMEOUT / 1000} s. --redis or NACRE_REDIS_URL names another Redis`,
    )
  return await use(queue)
}

/** A message about a Redis that does not answer, and how to name another one. */
export function withRemedy(message: string): string {
  return `${message}; waiting. --redis or NACRE_REDIS_URL names another Redis`
}

/** Says once that Redis cannot be reached: calls wait for it. */
function reporter() {
  let isReported = false
  const nothing = () => {}
  const warn = (message: string) => {
    if (!isReported) process.stderr.write(`nacre: ${withRemedy(message)}\n`)
    isReported = true
  }
  return { debug: nothing, info: nothing, warn, error: warn }
}
