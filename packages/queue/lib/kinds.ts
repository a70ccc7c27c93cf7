/** Kinds of values of queues and workers. Their messages never show a connection, which may contain a password. */
import { kinds, OptionError, urlOf } from 'nacre/internal'
import type { JobWorkerOptions, QueueBackoff, QueueKeep, RedisConnection } from './public.js'

/** Names that BullMQ uses for its own keys next to those of jobs: a job with such an id would destroy the queue. */
const RESERVED = new Set<unknown>(
  'active wait waiting-children paused id delayed prioritized stalled-check completed failed stalled repeat limiter meta events pc marker de metrics'.split(
    ' ',
  ),
)

/** The name of a queue. It leaves room for the attempt and the queue in the durable job's id. */
export const queueName = kinds.pattern(
  /^[A-Za-z0-9._-]{1,100}$/,
  'must be 1 to 100 characters of A-Z a-z 0-9 . _ -',
  { bounds: '1 to 100 of A-Z a-z 0-9 . _ -', code: 'INVALID_ID' },
)

/** Whole numbers are excluded: BullMQ assigns them itself. */
const freeId = kinds.pattern(
  /^(?!-?\d+$)[A-Za-z0-9._-]{1,100}$/,
  'must be 1 to 100 characters of A-Z a-z 0-9 . _ - but not a whole number',
  { bounds: '1 to 100 of A-Z a-z 0-9 . _ -, no whole number', code: 'INVALID_ID' },
)

/** The id of a job in a queue. */
export const queueJobId: kinds.Kind<string> = {
  ...freeId,
  read(value, name) {
    if (RESERVED.has(value))
      throw new OptionError('INVALID_ID', `${name} must not be '${value}', which BullMQ uses itself`)
    return freeId.read(value, name)
  },
}

/** The id of a host. */
export const hostId = kinds.pattern(
  /^[A-Za-z0-9._-]{1,64}$/,
  'must be 1 to 64 characters of A-Z a-z 0-9 . _ -',
  {
    bounds: '1 to 64 of A-Z a-z 0-9 . _ -',
    code: 'INVALID_ID',
  },
)

/** The prefix of keys in Redis. */
export const keyPrefix = kinds.pattern(
  /^[A-Za-z0-9._{}:-]{1,100}$/,
  'must be 1 to 100 characters of A-Z a-z 0-9 . _ - : { }',
  { bounds: '1 to 100 of A-Z a-z 0-9 . _ - : { }' },
)

/** Where Redis is: a URL, or an object for ioredis. */
export const redisConnection: kinds.Kind<RedisConnection, string | object> = {
  read(value, name) {
    const text = urlOf(value)?.href ?? value
    if (typeof text === 'string' && URL.canParse(text) && /^rediss?:$/.test(new URL(text).protocol))
      return text
    if (typeof text === 'object' && text !== null && !Array.isArray(text)) return text
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be a redis: or rediss: URL, options of ioredis or a client of ioredis`,
    )
  },
  bounds: 'a redis: or rediss: URL, or options or a client of ioredis',
}

const strategy = kinds.oneOf(['fixed', 'exponential'])
const number = kinds.count(0, Number.MAX_SAFE_INTEGER)
const limit = kinds.count(1, Number.MAX_SAFE_INTEGER)
const duration = kinds.count(1, kinds.MAX_MILLISECONDS)

/** A pause before a retry. */
export const backoff: kinds.Kind<QueueBackoff> = {
  read(value, name) {
    if (typeof value === 'number') return kinds.milliseconds.read(value, name)
    const { type, delay, jitter } = members(value, name, ['type', 'delay', 'jitter'])
    return {
      type: strategy.read(type, `${name}.type`),
      delay: kinds.milliseconds.read(delay, `${name}.delay`),
      ...(jitter !== undefined && { jitter: kinds.fraction.read(jitter, `${name}.jitter`) }),
    }
  },
  bounds: "ms, or { type: 'fixed' or 'exponential', delay, jitter }",
}

/** Which finished jobs to keep. */
export const keep: kinds.Kind<QueueKeep> = {
  read(value, name) {
    if (typeof value === 'boolean') return value
    if (typeof value === 'number') return number.read(value, name)
    const { age, count } = members(value, name, ['age', 'count'])
    return {
      ...(age !== undefined && { age: number.read(age, `${name}.age`) }),
      ...(count !== undefined && { count: number.read(count, `${name}.count`) }),
    }
  },
  bounds: 'true, false, a number, or { age, count } with age in seconds',
}

/** A rate limit. */
export const limiter: kinds.Kind<{ max: number; duration: number }> = {
  read(value, name) {
    const given = members(value, name, ['max', 'duration'])
    return {
      max: limit.read(given.max, `${name}.max`),
      duration: duration.read(given.duration, `${name}.duration`),
    }
  },
  bounds: '{ max, duration } in ms',
}

/** The members of an object; others than these are refused. */
function members<K extends string>(
  value: unknown,
  name: string,
  known: readonly K[],
): Partial<Record<K, unknown>> {
  const given = Object.fromEntries(kinds.readEntries(value, name)) as Partial<Record<K, unknown>>
  const other = Object.keys(given).find((key) => !known.includes(key as K))
  if (other === undefined) return given
  throw new OptionError(
    'INVALID_OPTION',
    `${name} has no option ${kinds.quote(other)}; it has: ${known.join(', ')}`,
  )
}

export const QUEUE_STATES = ['waiting', 'prioritized', 'delayed', 'active', 'completed', 'failed'] as const

/** A state of jobs in a queue. */
export const queueState = kinds.oneOf(QUEUE_STATES, `must be one of ${kinds.quoted(QUEUE_STATES)}`)

/** Durable jobs of a sandbox or a client. */
export const durableJobs: kinds.Kind<JobWorkerOptions['jobs']> = kinds.withMethods(
  ['start', 'status', 'read', 'follow', 'wait', 'cancel', 'attach', 'list', 'remove'],
  (missing) => `must be the jobs of a Sandbox or a SandboxClient; its method ${missing} is missing`,
  'the `jobs` of a Sandbox or a SandboxClient',
)
