/** All sandboxes of a server: their ids, their times, and what is kept of the paused ones. */
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Logger } from 'nacre'
import { report } from 'nacre/internal'
import { HttpError } from './failure.js'
import { freshId, freshToken, Hosted, type Place, type SandboxRecord } from './hosted.js'
import { parse } from './http.js'
import { removeTree } from './root.js'

const RECORD_FILE = 'meta.json'

export type NewSandbox = Pick<
  SandboxRecord,
  'template' | 'metadata' | 'env' | 'pausesOnTimeout' | 'hasNetwork'
> & {
  /** Milliseconds. */
  timeout: number
}

export class Registry {
  readonly #place: Place
  readonly #maxRunning: number
  readonly #logger: Logger | undefined
  readonly #all = new Map<string, Hosted>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Of one sandbox, one thing at a time starts, pauses or ends it. */
  readonly #changes = new Map<string, Promise<unknown>>()
  #starting = 0
  #isClosed = false

  constructor(place: Place, maxRunning: number, logger: Logger | undefined) {
    this.#place = place
    this.#maxRunning = maxRunning
    this.#logger = logger
  }

  /** Finds paused sandboxes of former servers, and removes those that were running when a server was killed. */
  async load(): Promise<void> {
    for (const name of await readdir(this.#place.sandboxes)) {
      const directory = path.join(this.#place.sandboxes, name)
      try {
        const text = await readFile(path.join(directory, RECORD_FILE), 'utf8')
        const record = parse(text) as unknown as SandboxRecord
        if (record.id === name) this.#all.set(name, new Hosted(record, this.#place))
      } catch {
        await removeTree(directory).catch((error) => this.#warn(`${directory} cannot be removed`, error))
      }
    }
  }

  get(id: string): Hosted | undefined {
    return this.#all.get(id)
  }

  list(): Hosted[] {
    return [...this.#all.values()]
  }

  /** Throws HttpError when too many are running. */
  create({ timeout, ...given }: NewSandbox): Promise<Hosted> {
    const startedAt = Date.now()
    const record = { id: freshId(), token: freshToken(), ...given, startedAt, endAt: startedAt + timeout }
    const hosted = new Hosted(record, this.#place)
    return this.#change(hosted, async () => {
      try {
        await this.#start(hosted, () => hosted.createDirectory())
      } catch (error) {
        await this.#discard(hosted)
        throw error
      }
      this.#all.set(record.id, hosted)
      this.setTimeout(hosted, timeout)
      return hosted
    })
  }

  /** Sets the time from now until the sandbox is paused or ends, in milliseconds, if it runs. */
  setTimeout(hosted: Hosted, timeout: number): void {
    const { id } = hosted.record
    if (hosted.state !== 'running' || this.#all.get(id) !== hosted) return
    hosted.record.endAt = Date.now() + timeout
    clearTimeout(this.#timers.get(id))
    const end = () => (hosted.record.pausesOnTimeout ? this.pause(hosted) : this.remove(hosted))
    const timer = setTimeout(() => {
      if (hosted.state !== 'running') return
      Promise.resolve(end()).catch((error) => this.#warn(`sandbox ${id} cannot be ended`, error))
    }, timeout)
    this.#timers.set(id, timer.unref())
  }

  /** False when it was paused already. */
  pause(hosted: Hosted): Promise<boolean> {
    return this.#change(hosted, async () => {
      if (hosted.state === 'paused') return false
      this.#stopTimer(hosted)
      await hosted.halt()
      const file = path.join(hosted.directory, RECORD_FILE)
      await writeFile(`${file}.new`, JSON.stringify(hosted.record), { mode: 0o600 })
      await rename(`${file}.new`, file)
      return true
    })
  }

  /** False when it was running already. */
  resume(hosted: Hosted, timeout: number): Promise<boolean> {
    return this.#change(hosted, async () => {
      if (hosted.state === 'running') return false
      await this.#start(hosted)
      await rm(path.join(hosted.directory, RECORD_FILE), { force: true })
      this.setTimeout(hosted, timeout)
      return true
    })
  }

  /** Ends it, and removes its files. */
  async remove(hosted: Hosted): Promise<void> {
    this.#all.delete(hosted.record.id)
    this.#stopTimer(hosted)
    await this.#change(hosted, () => this.#discard(hosted))
  }

  /** Removes all that run. Paused ones stay for the next server. */
  async close(): Promise<void> {
    this.#isClosed = true
    // Others may begin meanwhile.
    while (this.#changes.size > 0) await Promise.allSettled(this.#changes.values())
    await Promise.all(
      this.list().map((hosted) => (hosted.state === 'running' ? this.remove(hosted) : undefined)),
    )
  }

  async #start(hosted: Hosted, prepare?: () => Promise<void>): Promise<void> {
    const running = this.list().filter(({ state }) => state === 'running').length
    if (running + this.#starting >= this.#maxRunning)
      throw new HttpError(429, `${this.#maxRunning} sandboxes are running, which is the limit of this server`)
    if (this.#isClosed) throw new HttpError(503, 'the server ends')
    this.#starting += 1
    try {
      await prepare?.()
      await hosted.start()
    } finally {
      this.#starting -= 1
    }
  }

  async #discard(hosted: Hosted): Promise<void> {
    await hosted.halt()
    await removeTree(hosted.directory).catch((error) =>
      this.#warn(`${hosted.directory} cannot be removed`, error),
    )
  }

  #stopTimer({ record }: Hosted): void {
    clearTimeout(this.#timers.get(record.id))
    this.#timers.delete(record.id)
  }

  #change<T>({ record }: Hosted, work: () => Promise<T>): Promise<T> {
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
    report(this.#logger, 'warn', `${text}: ${(error as Error).message}`)
  }
}
