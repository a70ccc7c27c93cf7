/**
 * Connections to Redis, and the scripts on them.
 *
 * A command waits for the connection, however long Redis is away, and is sent again when the connection broke. All
 * scripts may therefore run twice.
 */
import { Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'
import type { Names } from './keys.js'
import { SCRIPTS, type ScriptName } from './scripts.js'

/** The longest pause between two attempts to connect. */
const LONGEST_PAUSE_MS = 1000

const SETTINGS: RedisOptions = {
  // What BullMQ requires of workers, and what lets commands wait for Redis.
  maxRetriesPerRequest: null,
  retryStrategy: (attempt) => Math.min(attempt * 50, LONGEST_PAUSE_MS),
}

/**
 * Opens a connection. `target` is a URL, options of ioredis, or a client whose settings are used. `told` has the errors that
 * the log has had since a connection worked.
 */
export function connect(
  target: string | object,
  logger: Logger | undefined,
  told: Set<string> = new Set(),
): Redis {
  const redis = open(target)
  redis.on('error', (error) => tell(error, logger, told))
  redis.on('ready', () => told.clear())
  return redis
}

/** Logs an error of a connection, unless it has been told. */
export function tell(
  { message, code = '' }: NodeJS.ErrnoException,
  logger: Logger | undefined,
  told: Set<string>,
): void {
  const text = message || code
  if (!told.has(text)) report(logger, 'warn', `Redis: ${text}`)
  told.add(text)
}

function open(target: string | object): Redis {
  if (typeof target === 'string') return new Redis(target, SETTINGS)
  const { duplicate } = target as Partial<Redis>
  if (typeof duplicate === 'function') return duplicate.call(target as Redis, SETTINGS)
  return new Redis({ ...(target as RedisOptions), ...SETTINGS })
}

/** A second connection to the same Redis. */
export function connectAgain(redis: Redis, logger: Logger | undefined, told?: Set<string>): Redis {
  return connect(redis, logger, told)
}

/** Calls the scripts. */
export class Scripts {
  readonly #redis: Redis
  readonly #names: Names

  constructor(redis: Redis, names: Names) {
    this.#redis = redis
    this.#names = names
    for (const [name, lua] of Object.entries(SCRIPTS))
      redis.defineCommand(`nacre_${name}`, { numberOfKeys: 2, lua })
  }

  call<T>(name: ScriptName, ...values: Array<string | number>): Promise<T> {
    const command = (this.#redis as unknown as Record<string, (...values: unknown[]) => Promise<T>>)[
      `nacre_${name}`
    ]
    if (command === undefined) throw new Error(`there is no script ${name}`)
    return command.call(this.#redis, this.#names.base, this.#names.bull, ...values)
  }
}
