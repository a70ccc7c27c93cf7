/**
 * Answers readers of logs with what this host has. An answer without a reader is dropped by Redis, and a reader without
 * an answer asks again.
 */
import type { Redis } from 'ioredis'
import type { Jobs } from 'nacre'
import { pause } from 'nacre/internal'
import type { HostRequest } from './inbox.js'
import type { Names } from './keys.js'
import { encodeAnswer, MOST_BYTES, NEWS_MS } from './log-wire.js'

type LogRequest = Extract<HostRequest, { op: 'read' | 'news' }>

/** Reads that are being answered. Each holds one answer in memory. */
const MOST_READS = 256
/** Readers that wait for news by a watch. Others are answered after a while, and look for themselves. */
const MOST_WATCHES = 256
const LOOK_MS = 1000

export class LogServer {
  readonly #redis: Redis
  readonly #names: Names
  readonly #jobs: Pick<Jobs, 'read' | 'follow'>
  readonly #stop: AbortSignal
  #reads = 0
  #watches = 0

  constructor(redis: Redis, names: Names, jobs: Pick<Jobs, 'read' | 'follow'>, stop: AbortSignal) {
    this.#redis = redis
    this.#names = names
    this.#jobs = jobs
    this.#stop = stop
  }

  /** Answers one request, or drops a read when too many are being answered. Never rejects. */
  async serve(request: LogRequest): Promise<void> {
    const isRead = request.op === 'read'
    if (isRead && this.#reads >= MOST_READS) return
    if (isRead) this.#reads++
    try {
      await this.#publish(request, await this.#answer(request))
    } catch {
      // Redis is away; the reader asks again.
    } finally {
      if (isRead) this.#reads--
    }
  }

  async #answer(request: LogRequest): Promise<Buffer> {
    const { op, call, cursor, maxBytes } = request
    const jobId = this.#names.durableId(request)
    try {
      if (op === 'news') {
        await this.#news(jobId, cursor)
        return encodeAnswer({ call })
      }
      const most = Math.max(1, Math.min(maxBytes, MOST_BYTES))
      const { raw, bytesFetched, status } = await this.#jobs.read(jobId, cursor, {
        maxBytes: most,
        encoding: 'buffer',
      })
      return encodeAnswer({ call, status, atEnd: bytesFetched < most }, raw)
    } catch (error) {
      const { code = 'ENGINE_ERROR', message = String(error) } = error as { code?: string; message?: string }
      return encodeAnswer({ call, error: { code, message } })
    }
  }

  /** Resolves when there is output after the cursor, when the job has ended, or after a while. */
  async #news(jobId: string, cursor: number): Promise<void> {
    if (this.#watches >= MOST_WATCHES) return pause(LOOK_MS, this.#stop)
    this.#watches++
    try {
      await this.#watch(jobId, cursor)
    } finally {
      this.#watches--
    }
  }

  async #watch(jobId: string, cursor: number): Promise<void> {
    const signal = AbortSignal.any([this.#stop, AbortSignal.timeout(NEWS_MS)])
    const pieces = this.#jobs.follow(jobId, cursor, { maxBytes: 1, encoding: 'buffer', signal })
    try {
      await pieces.next()
    } catch (error) {
      if (!signal.aborted) throw error
    } finally {
      await pieces.return?.()
    }
  }

  async #publish({ reader }: LogRequest, answer: Buffer): Promise<void> {
    if (this.#stop.aborted) return
    await this.#redis.publish(this.#names.replies(reader), answer)
  }
}
