/** Requests to hosts and their answers, which come on one channel for all readers of a queue object. */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { aborts, clock } from 'nacre/internal'
import type { HostRequest } from './inbox.js'
import type { Names } from './keys.js'
import { decodeAnswer } from './log-wire.js'
import type { Scripts } from './redis.js'

export type Reply = NonNullable<ReturnType<typeof decodeAnswer>>
type LogRequest = Extract<HostRequest, { op: 'read' | 'news' }>

export class Replies {
  readonly #redis: Redis
  readonly #scripts: Scripts
  readonly #reader: string
  readonly #waiting = new Map<number, (reply: Reply) => void>()
  #calls = 0

  private constructor(redis: Redis, scripts: Scripts, reader: string) {
    this.#redis = redis
    this.#scripts = scripts
    this.#reader = reader
    redis.on('messageBuffer', (_: Buffer, message: Buffer) => {
      const reply = decodeAnswer(message)
      if (reply !== undefined) this.#waiting.get(reply.answer.call)?.(reply)
    })
  }

  /** The connection is for this alone, since it subscribes. */
  static async open(redis: Redis, scripts: Scripts, names: Names): Promise<Replies> {
    const reader = randomUUID()
    const replies = new Replies(redis, scripts, reader)
    await redis.subscribe(names.replies(reader))
    return replies
  }

  /** The answer; undefined when none comes in time, or `stop` is aborted. */
  async ask(
    host: string,
    request: Omit<LogRequest, 'reader' | 'call'>,
    within: number,
    stop: AbortSignal,
  ): Promise<Reply | undefined> {
    const call = ++this.#calls
    let reply: Reply | undefined
    let timer: NodeJS.Timeout | undefined
    const answered = new Promise<void>((resolve) => {
      this.#waiting.set(call, (found) => {
        reply = found
        resolve()
      })
      timer = clock.setTimeout(resolve, within)
    })
    try {
      await this.#scripts.call('ask', host, JSON.stringify({ ...request, reader: this.#reader, call }))
      await aborts.orAborted(answered, stop)
      return reply
    } finally {
      clock.clearTimeout(timer)
      this.#waiting.delete(call)
    }
  }

  close(): void {
    this.#redis.disconnect()
  }
}
