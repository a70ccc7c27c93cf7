/**
 * The lease of a host: while it is renewed, no other host takes its attempts for lost.
 *
 * One worker holds a host. A worker that was killed leaves a lease, which its successor takes over when it sees that
 * nothing renews it. A lease that is renewed means that two workers have the same host id.
 */
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { clock, engineError, pause } from 'nacre/internal'
import type { Scripts } from './redis.js'

/** The longest time between two renewals. It also bounds how long a restarted worker waits for its predecessor. */
const LONGEST_BEAT_MS = 2000

export interface LeaseOptions {
  host: string
  /** Milliseconds. */
  lease: number
  /** Called after the lease had run out, or Redis was restarted: what is in Redis may not be what was written. */
  onLapse: () => void
  /** Called when another worker has taken the host over. */
  onSuperseded: (error: Error) => void
  onError: (error: Error) => void
}

export class Lease {
  /** This worker: a process, not a host. */
  readonly worker = randomUUID()
  /** The run of the Redis server that was seen last. */
  seen = ''
  readonly #redis: Redis
  readonly #scripts: Scripts
  readonly #options: LeaseOptions
  readonly #stop = new AbortController()
  /** When the last renewal was sent that succeeded, by the monotonic clock. */
  #renewed = 0
  #beating: Promise<void> = Promise.resolve()

  constructor(redis: Redis, scripts: Scripts, options: LeaseOptions) {
    this.#redis = redis
    this.#scripts = scripts
    this.#options = options
  }

  get #interval(): number {
    return Math.min(LONGEST_BEAT_MS, this.#options.lease / 5)
  }

  /** Milliseconds since the lease was certainly valid. */
  get age(): number {
    return clock.performance.now() - this.#renewed
  }

  /** Takes the host and renews the lease from then on. Rejects with HOST_ID_IN_USE. */
  async take(): Promise<void> {
    const { host, lease } = this.#options
    const register = (force: string) =>
      this.#scripts.call<string[]>('register', host, this.worker, lease, this.seen, force)
    const sent = clock.performance.now()
    const [answer, former = '', expiry] = await register('')
    if (answer === 'held') {
      await pause(2 * this.#interval, this.#stop.signal)
      const [, , later] = await register('')
      if (later !== undefined && later !== expiry)
        throw engineError(
          'HOST_ID_IN_USE',
          `another worker has the host id '${host}': give each host an id of its own`,
        )
      await register(former)
    }
    this.#renewed = sent
    await this.#beat()
    this.#beating = this.#run()
  }

  /** Renews the lease now. */
  async renew(): Promise<void> {
    await this.#beat()
  }

  /** Ends the renewals; the lease stays for `absence` ms. */
  async end(absence: number): Promise<void> {
    this.#stop.abort()
    await this.#beating
    if (this.#renewed > 0) await this.#scripts.call('release', this.#options.host, this.worker, absence)
  }

  /** Ends the renewals without a word to Redis. */
  abandon(): void {
    this.#stop.abort()
  }

  async #run(): Promise<void> {
    for (;;) {
      await pause(this.#interval, this.#stop.signal)
      if (this.#stop.signal.aborted) return
      // A server that is loading its data, or a replica: it is asked again.
      await this.#beat().catch(this.#options.onError)
    }
  }

  async #beat(): Promise<void> {
    const { host, lease, onLapse, onSuperseded } = this.#options
    const sent = clock.performance.now()
    // A connection that is cut without a reset would be waited for until TCP gives up, which takes minutes.
    const watchdog = clock.setInterval(() => this.#redis.disconnect(true), Math.max(1000, lease / 2))
    try {
      const [answer, run = ''] = await this.#scripts.call<string[]>(
        'beat',
        host,
        this.worker,
        lease,
        this.seen,
      )
      if (answer === 'superseded') {
        this.#stop.abort()
        onSuperseded(engineError('HOST_ID_IN_USE', `another worker has taken over the host '${host}'`))
        return
      }
      const isNewRun = this.seen !== '' && this.seen !== run
      const isLate = sent - this.#renewed > lease
      this.seen = run
      this.#renewed = sent
      if (answer === 'lapsed' || isNewRun || isLate) onLapse()
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error
    } finally {
      clock.clearInterval(watchdog)
    }
  }
}
