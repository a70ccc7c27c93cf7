/** All sandboxes of a server: their times, and what is kept of them. */
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from 'nacre'
import { clock, kinds, report } from 'nacre/internal'
import { HttpError } from './failure.js'
import { Hosted, type Place, type SandboxRecord, type Snapshot } from './hosted.js'
import { parse } from './http.js'
import { removeTree } from './root.js'

/** Sandboxes of a server, with those that are paused. */
const MOST_SANDBOXES = 1000
/** Milliseconds until a pause is tried again that was due and was not possible. */
const RETRY_TIME = 60_000

/** What happens to a sandbox by itself. `at` is in milliseconds since 1970. */
export type Due = { at: number } & ({ end: 'pause'; snapshot: Snapshot } | { end: 'remove' })

export type Change = 'running' | 'paused' | 'removed'

export interface RegistryOptions<R extends SandboxRecord> {
  place: Place<R>
  maxRunning: number
  logger: Logger | undefined
  /** Whether sandboxes that run are paused when the server ends, and not removed. */
  isKept: boolean
  /** What happens to the sandbox next if nothing is called. `now` is in milliseconds since 1970. */
  due(hosted: Hosted<R>, now: number): Due | undefined
  /** Default: the clock of this machine. */
  clock?: Clock
}

export interface Clock {
  now(): number
  /** Returns a function that cancels the call. */
  after(milliseconds: number, call: () => void): () => void
}

const CLOCK: Clock = {
  now: Date.now,
  after(milliseconds, call) {
    const timer = clock.setTimeout(call, milliseconds).unref()
    return () => clock.clearTimeout(timer)
  },
}

export class Registry<R extends SandboxRecord> {
  /** Called after each change, before it is written. `now` is in milliseconds since 1970. */
  onChange: (hosted: Hosted<R>, change: Change, now: number) => void = () => {}
  readonly #options: RegistryOptions<R>
  readonly #all = new Map<string, Hosted<R>>()
  readonly #clock: Clock
  /** They cancel the timer of a sandbox. */
  readonly #timers = new Map<string, () => void>()
  /** Why a pause that was due was not possible, as it was reported. */
  readonly #refusals = new WeakMap<Hosted<R>, string>()
  /** Of one sandbox, one thing at a time starts, pauses or ends it. */
  readonly #changes = new Map<string, Promise<unknown>>()
  #starting = 0
  #isClosed = false

  constructor(options: RegistryOptions<R>) {
    this.#options = options
    this.#clock = options.clock ?? CLOCK
  }

  /** Finds paused sandboxes of former servers, and removes what they left of others. */
  async load(): Promise<void> {
    const { place } = this.#options
    for (const name of await readdir(place.sandboxes)) {
      const directory = path.join(place.sandboxes, name)
      try {
        const record = parse(await readFile(this.#fileOf(name), 'utf8')) as unknown as R
        if (record.id !== name) continue
        const hosted = new Hosted(record, place)
        this.#all.set(name, hosted)
        this.schedule(hosted)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
          this.#warn(`${directory} cannot be read and is left alone`, error)
          continue
        }
        await removeTree(directory).catch((error) => this.#warn(`${directory} cannot be removed`, error))
      }
    }
    await this.#sweepRecords()
  }

  /** Removes records and archives without a sandbox, also those that were being written. */
  async #sweepRecords(): Promise<void> {
    const { sandboxes, records } = this.#options.place
    const known = new Set(await readdir(sandboxes))
    for (const name of await readdir(records)) {
      const id = name.replace(/^\./, '').split('.', 1)[0] ?? ''
      if (!known.has(id)) await rm(path.join(records, name), { force: true })
    }
  }

  get(id: string): Hosted<R> | undefined {
    return this.#all.get(id)
  }

  list(): Hosted<R>[] {
    return [...this.#all.values()]
  }

  /** Throws HttpError when too many are running. */
  create(record: R): Promise<Hosted<R>> {
    const { place, isKept } = this.#options
    const hosted = new Hosted(record, place)
    return this.#change(hosted, async () => {
      if (this.#all.size + this.#starting >= MOST_SANDBOXES)
        throw new HttpError(
          429,
          `the server keeps ${MOST_SANDBOXES} sandboxes, which is its limit: remove paused ones`,
        )
      try {
        await this.#start(hosted, 'filesystem', async () => {
          await hosted.createDirectory()
          if (isKept) await this.#write(hosted)
        })
      } catch (error) {
        await this.#discard(hosted)
        throw error
      }
      this.#all.set(record.id, hosted)
      this.onChange(hosted, 'running', this.#clock.now())
      return hosted
    })
  }

  /** Waits for what is due for the sandbox next. To be called whenever that may be different. */
  schedule(hosted: Hosted<R>): void {
    const { id } = hosted.record
    this.#stopTimer(hosted)
    if (this.#all.get(id) !== hosted) return
    const now = this.#clock.now()
    const due = this.#options.due(hosted, now)
    if (due !== undefined) this.#look(hosted, due.at - now)
  }

  #look(hosted: Hosted<R>, milliseconds: number): void {
    const { id } = hosted.record
    const wait = Math.min(Math.max(milliseconds, 0), kinds.MAX_MILLISECONDS)
    const cancel = this.#clock.after(wait, () => {
      this.#change(hosted, () => this.#endIfDue(hosted)).catch((error) =>
        this.#warn(`sandbox ${id} cannot be ended`, error),
      )
    })
    this.#timers.set(id, cancel)
  }

  /** A call that has come before, or is under way, may have replaced the time that the timer waited for. */
  async #endIfDue(hosted: Hosted<R>): Promise<void> {
    if (this.#all.get(hosted.record.id) !== hosted) return
    const now = this.#clock.now()
    const due = this.#options.due(hosted, now)
    if (due === undefined || due.at > now) this.schedule(hosted)
    else if (due.end === 'pause') await this.#pauseWhenDue(hosted, due.snapshot)
    else {
      this.#forget(hosted)
      await this.#remove(hosted)
    }
  }

  /** No caller would learn that less is kept, so the sandbox runs on as long as its programs. */
  async #pauseWhenDue(hosted: Hosted<R>, snapshot: Snapshot): Promise<void> {
    try {
      await this.#pause(hosted, snapshot)
    } catch (error) {
      const reason = (error as Error).message
      if (this.#refusals.get(hosted) !== reason)
        this.#warn(`sandbox ${hosted.record.id} is due to be paused, and runs on`, error)
      this.#refusals.set(hosted, reason)
      this.#stopTimer(hosted)
      if (this.#all.get(hosted.record.id) === hosted) this.#look(hosted, RETRY_TIME)
    }
  }

  /** False when it was paused already. Throws HttpError, and the sandbox runs on, if a full pause is not possible. */
  pause(hosted: Hosted<R>, snapshot: Snapshot): Promise<boolean> {
    return this.#change(hosted, () => this.#pause(hosted, snapshot))
  }

  async #pause(hosted: Hosted<R>, snapshot: Snapshot): Promise<boolean> {
    if (hosted.state === 'paused') return false
    const lost = await hosted.pause(snapshot)
    if (lost !== undefined) this.#warn(`the shells of sandbox ${hosted.record.id} cannot be kept`, lost)
    this.#stopTimer(hosted)
    this.onChange(hosted, 'paused', this.#clock.now())
    this.schedule(hosted)
    await this.#keep(hosted)
    return true
  }

  /**
   * Returns false when it was running already. `renew` sets the times of the sandbox that runs, before one that has passed
   * can end it. Throws HttpError, and it stays paused, if a full pause cannot be undone.
   */
  resume(hosted: Hosted<R>, snapshot: Snapshot, renew: (isResumed: boolean) => void): Promise<boolean> {
    return this.#change(hosted, async () => {
      if (this.#all.get(hosted.record.id) !== hosted) throw new HttpError(404, 'the sandbox was removed')
      const isResumed = hosted.state === 'paused'
      if (isResumed) await this.#start(hosted, snapshot)
      renew(isResumed)
      if (isResumed) this.onChange(hosted, 'running', this.#clock.now())
      this.schedule(hosted)
      if (this.#options.isKept) await this.#keep(hosted)
      else if (isResumed) await rm(this.#fileOf(hosted.record.id), { force: true })
      // After the record, which names it.
      if (isResumed) await rm(hosted.archive, { force: true })
      return isResumed
    })
  }

  /** Gives a sandbox that runs other times, after a pause that is under way. Throws HttpError for one that is paused. */
  renew(hosted: Hosted<R>, renew: () => void): Promise<void> {
    return this.#change(hosted, async () => {
      if (hosted.state !== 'running') throw new HttpError(404, `Sandbox ${hosted.record.id} is not running`)
      renew()
      this.schedule(hosted)
    })
  }

  /** Writes what has changed in the record, if it is kept. */
  save(hosted: Hosted<R>): Promise<void> {
    return this.#change(hosted, async () => {
      if (this.#options.isKept && this.#all.get(hosted.record.id) === hosted) await this.#write(hosted)
    })
  }

  /** Ends it, and removes its files. */
  async remove(hosted: Hosted<R>): Promise<void> {
    const isFirst = this.#forget(hosted)
    await this.#change(hosted, async () => {
      if (isFirst) await this.#remove(hosted)
    })
  }

  async #remove(hosted: Hosted<R>): Promise<void> {
    await this.#discard(hosted)
    this.onChange(hosted, 'removed', this.#clock.now())
  }

  /** Returns false for a sandbox that has been removed before. */
  #forget(hosted: Hosted<R>): boolean {
    const { id } = hosted.record
    const isKnown = this.#all.get(id) === hosted
    if (isKnown) this.#all.delete(id)
    this.#stopTimer(hosted)
    return isKnown
  }

  /** Ends all that run. Paused ones stay for the next server, and those whose pause was due. */
  async close(): Promise<void> {
    this.#isClosed = true
    // Others may begin meanwhile.
    while (this.#changes.size > 0) await Promise.allSettled(this.#changes.values())
    const running = this.list().filter(({ state }) => state === 'running')
    const end = (hosted: Hosted<R>) => {
      const due = this.#options.due(hosted, this.#clock.now())
      const isOverdue = due?.end === 'pause' && due.at <= this.#clock.now()
      if (this.#options.isKept) return this.pause(hosted, 'shells')
      return isOverdue ? this.pause(hosted, 'filesystem') : this.remove(hosted)
    }
    await Promise.allSettled(running.map(end))
    for (const hosted of this.list()) this.#stopTimer(hosted)
  }

  async #start(hosted: Hosted<R>, snapshot: Snapshot, prepare?: () => Promise<void>): Promise<void> {
    const { maxRunning } = this.#options
    const running = this.list().filter(({ state }) => state === 'running').length
    if (running + this.#starting >= maxRunning)
      throw new HttpError(429, `${maxRunning} sandboxes are running, which is the limit of this server`)
    if (this.#isClosed) throw new HttpError(503, 'the server ends')
    this.#starting += 1
    try {
      await prepare?.()
      const lost = await hosted.start(snapshot)
      if (lost !== undefined) this.#warn(`the shells of sandbox ${hosted.record.id} are lost`, lost)
    } finally {
      this.#starting -= 1
    }
  }

  /** Its state has changed: on a full disk, only the next server does not know. */
  async #keep(hosted: Hosted<R>): Promise<void> {
    await this.#write(hosted).catch((error) =>
      this.#warn(`the record of ${hosted.record.id} cannot be written`, error),
    )
  }

  #fileOf(id: string): string {
    return path.join(this.#options.place.records, `${id}.json`)
  }

  async #write({ record }: Hosted<R>): Promise<void> {
    const file = this.#fileOf(record.id)
    await writeFile(`${file}.new`, JSON.stringify(record), { mode: 0o600 })
    await rename(`${file}.new`, file)
  }

  async #discard(hosted: Hosted<R>): Promise<void> {
    await hosted.halt()
    await removeTree(hosted.directory).catch((error) =>
      this.#warn(`${hosted.directory} cannot be removed`, error),
    )
    await rm(this.#fileOf(hosted.record.id), { force: true })
    await rm(hosted.archive, { force: true })
  }

  #stopTimer({ record }: Hosted<R>): void {
    this.#timers.get(record.id)?.()
    this.#timers.delete(record.id)
  }

  #change<T>({ record }: Hosted<R>, work: () => Promise<T>): Promise<T> {
    const before = this.#changes.get(record.id) ?? Promise.resolve()
    const change = before.catch(() => {}).then(work)
    this.#changes.set(record.id, change)
    const forget = () => {
      if (this.#changes.get(record.id) === change) this.#changes.delete(record.id)
    }
    change.then(forget, forget)
    return change
  }

  #warn(text: string, error: unknown): void {
    report(this.#options.logger, 'warn', `${text}: ${(error as Error).message}`)
  }
}
