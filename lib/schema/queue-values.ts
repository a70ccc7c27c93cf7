/** Readers for the options of queues and workers. Their messages never show a connection, which may contain a password. */
import { OptionError } from '../base/errors.js'
import type { JobWorkerOptions, QueueBackoff, QueueJob, QueueKeep } from '../public/queue.js'
import { MAX_MILLISECONDS, milliseconds, wholeNumber } from './numbers.js'
import { describe, readEntries } from './read.js'

/** Leaves room for the attempt and the queue in the durable job's id. */
const QUEUE_ID = /^[A-Za-z0-9._-]{1,100}$/
const HOST = /^[A-Za-z0-9._-]{1,64}$/
const PREFIX = /^[A-Za-z0-9._{}:-]{1,100}$/

/** Names that BullMQ uses for its own keys next to those of jobs: a job with such an id would destroy the queue. */
const RESERVED = new Set(
  'active wait waiting-children paused id delayed prioritized stalled-check completed failed stalled repeat limiter meta events pc marker de metrics'.split(
    ' ',
  ),
)

/** The name of a queue. */
export function queueName(value: unknown, name: string): string {
  if (typeof value === 'string' && QUEUE_ID.test(value)) return value
  throw new OptionError(
    'INVALID_ID',
    `${name} must be 1 to 100 characters of A-Z a-z 0-9 . _ -, not ${describe(value)}`,
  )
}

/** The id of a job in a queue. Whole numbers are excluded: BullMQ assigns them itself. */
export function queueJobId(value: unknown, name: string): string {
  if (typeof value === 'string' && RESERVED.has(value))
    throw new OptionError('INVALID_ID', `${name} must not be '${value}', which BullMQ uses itself`)
  if (typeof value === 'string' && QUEUE_ID.test(value) && !/^-?\d+$/.test(value)) return value
  throw new OptionError(
    'INVALID_ID',
    `${name} must be 1 to 100 characters of A-Z a-z 0-9 . _ - but not a whole number, not ${describe(value)}`,
  )
}

/** The id of a host. */
export function hostId(value: unknown, name: string): string {
  if (typeof value === 'string' && HOST.test(value)) return value
  throw new OptionError(
    'INVALID_ID',
    `${name} must be 1 to 64 characters of A-Z a-z 0-9 . _ -, not ${describe(value)}`,
  )
}

/** The prefix of keys in Redis. */
export function keyPrefix(value: unknown, name: string): string {
  if (typeof value === 'string' && PREFIX.test(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be 1 to 100 characters of A-Z a-z 0-9 . _ - : { }, not ${describe(value)}`,
  )
}

/** Where Redis is: a URL, or an object for ioredis. */
export function redisConnection(value: unknown, name: string): string | object {
  const text = value instanceof URL ? value.href : value
  if (typeof text === 'string' && URL.canParse(text) && /^rediss?:$/.test(new URL(text).protocol)) return text
  if (typeof text === 'object' && text !== null && !Array.isArray(text)) return text
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a redis: or rediss: URL, options of ioredis or a client of ioredis`,
  )
}

/** A pause before a retry. */
export function backoff(value: unknown, name: string): QueueBackoff {
  if (typeof value === 'number') return milliseconds(value, name)
  const { type, delay, jitter, ...others } = Object.fromEntries(readEntries(value, name))
  refuseOthers(others, name, 'type, delay, jitter')
  if (type !== 'fixed' && type !== 'exponential')
    throw new OptionError(
      'INVALID_OPTION',
      `${name}.type must be 'fixed' or 'exponential', not ${describe(type)}`,
    )
  const checked = { type, delay: milliseconds(delay, `${name}.delay`) } as const
  if (jitter === undefined) return checked
  if (typeof jitter === 'number' && jitter >= 0 && jitter <= 1) return { ...checked, jitter }
  throw new OptionError(
    'INVALID_OPTION',
    `${name}.jitter must be a number from 0 to 1, not ${describe(jitter)}`,
  )
}

/** Which finished jobs to keep. */
export function keep(value: unknown, name: string): QueueKeep {
  const number = wholeNumber(0, Number.MAX_SAFE_INTEGER)
  if (typeof value === 'boolean') return value
  if (typeof value === 'number') return number(value, name)
  const { age, count, ...others } = Object.fromEntries(readEntries(value, name))
  refuseOthers(others, name, 'age, count')
  return {
    ...(age !== undefined && { age: number(age, `${name}.age`) }),
    ...(count !== undefined && { count: number(count, `${name}.count`) }),
  }
}

/** A rate limit. */
export function limiter(value: unknown, name: string): { max: number; duration: number } {
  const { max, duration, ...others } = Object.fromEntries(readEntries(value, name))
  refuseOthers(others, name, 'max, duration')
  return {
    max: wholeNumber(1, Number.MAX_SAFE_INTEGER)(max, `${name}.max`),
    duration: wholeNumber(1, MAX_MILLISECONDS)(duration, `${name}.duration`),
  }
}

/** 'fail' or 'retry'. */
export function onHostLost(value: unknown, name: string): 'fail' | 'retry' {
  if (value === 'fail' || value === 'retry') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'fail' or 'retry', not ${describe(value)}`)
}

export const QUEUE_STATES = ['waiting', 'prioritized', 'delayed', 'active', 'completed', 'failed'] as const

/** A state of jobs in a queue. */
export function queueState(value: unknown, name: string): Exclude<QueueJob['state'], 'unknown'> {
  const state = QUEUE_STATES.find((known) => known === value)
  if (state !== undefined) return state
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be one of ${QUEUE_STATES.map((known) => `'${known}'`).join(', ')}, not ${describe(value)}`,
  )
}

const JOB_METHODS = ['start', 'status', 'read', 'follow', 'wait', 'cancel', 'attach', 'list', 'remove']

/** Durable jobs of a sandbox or a client. */
export function durableJobs(value: unknown, name: string): JobWorkerOptions['jobs'] {
  const candidate = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  const missing = JOB_METHODS.find((method) => typeof candidate[method] !== 'function')
  if (missing === undefined) return value as JobWorkerOptions['jobs']
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be the jobs of a Sandbox or a SandboxClient; its method ${missing} is missing`,
  )
}

function refuseOthers(others: object, name: string, known: string): void {
  const [other] = Object.keys(others)
  if (other !== undefined)
    throw new OptionError('INVALID_OPTION', `${name} has no option ${describe(other)}; it has: ${known}`)
}
