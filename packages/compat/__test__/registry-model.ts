/**
 * Random calls of the registry, on a clock of its own, against a model: a sandbox ends or pauses only by its own time or by
 * a call, and it does end at its time. The sandboxes of nacre are empty: only their times are tested.
 */
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { Sandbox, SuspendOptions } from 'nacre'
import { engineError } from 'nacre/internal'
import type { Random } from '../../../__test__/helpers/random.js'
import { HttpError } from '../lib/failure.js'
import type { Hosted, Place, SandboxRecord, Snapshot } from '../lib/hosted.js'
import { type Change, type Clock, Registry, type RegistryOptions } from '../lib/registry.js'

const MOST_SANDBOXES = 6
/** Milliseconds until a refused pause is tried again. */
const RETRY_TIME = 60_000
const SNAPSHOTS: Snapshot[] = ['full', 'shells', 'filesystem']

/** The times of an API. They are in milliseconds since 1970. */
export interface Times<R extends SandboxRecord> extends Pick<RegistryOptions<R>, 'isKept' | 'due'> {
  create(random: Random, now: number): R
  /** A call of a client that gives the sandbox more time. */
  renew(record: R, isResumed: boolean, random: Random, now: number): void
  changed(record: R, change: Change, now: number): void
  /** The earliest time at which it may end without a call, by the API's documentation. */
  endOf(record: R, isRunning: boolean): number
}

class FakeClock implements Clock {
  #now = Date.UTC(2026, 0, 1)
  readonly #timers = new Set<{ at: number; call(): void }>()

  now = () => this.#now

  after(milliseconds: number, call: () => void): () => void {
    const timer = { at: this.#now + milliseconds, call }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Runs what is due meanwhile. */
  async advance(milliseconds: number): Promise<void> {
    const until = this.#now + milliseconds
    for (;;) {
      const [next] = [...this.#timers].filter(({ at }) => at <= until).sort((one, other) => one.at - other.at)
      if (next === undefined) break
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.call()
      await turn()
    }
    this.#now = until
  }
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** What the model knows of a sandbox. */
interface Known<R extends SandboxRecord> {
  hosted: Hosted<R>
  /** It does not end before. */
  end: number
  /** Calls under way that end or pause it. */
  endings: number
  /** Until then, it may run on: its programs have just ended. */
  retried: number
}

/** On ext4, making a file after many were removed takes milliseconds. */
function inMemory(): string {
  try {
    accessSync('/dev/shm', constants.W_OK)
    return '/dev/shm'
  } catch {
    return os.tmpdir()
  }
}

export async function checkRegistry<R extends SandboxRecord>(
  times: Times<R>,
  random: Random,
  steps: number,
): Promise<void> {
  const base = mkdtempSync(path.join(inMemory(), 'nacre-registry-'))
  try {
    await new Model(times, random, base).run(steps)
  } finally {
    rmSync(base, { recursive: true, force: true })
  }
}

class Model<R extends SandboxRecord> {
  readonly #clock = new FakeClock()
  readonly #known = new Map<string, Known<R>>()
  readonly #calls = new Set<Promise<unknown>>()
  readonly #violations: string[] = []
  readonly #history: string[] = []
  readonly #times: Times<R>
  readonly #random: Random
  readonly #base: string
  /** The ids of those whose programs no full pause can keep. */
  readonly #busy = new Set<string>()
  #registry: Registry<R>
  #isEnding = false

  constructor(times: Times<R>, random: Random, base: string) {
    this.#times = times
    this.#random = random
    this.#base = base
    this.#registry = this.#open()
  }

  async run(steps: number): Promise<void> {
    await mkdir(path.join(this.#base, 'sandboxes'))
    await mkdir(path.join(this.#base, 'records'))
    for (let step = 0; step < steps; step++) {
      await this.#step()
      if (this.#violations.length > 0)
        throw new Error([...this.#violations, 'before:', ...this.#history.slice(-20)].join('\n'))
    }
    await this.#restart()
  }

  #open(): Registry<R> {
    const { isKept, due } = this.#times
    const place: Place<R> = {
      sandboxes: path.join(this.#base, 'sandboxes'),
      records: path.join(this.#base, 'records'),
      home: '/home/user',
      user: 'user',
      isMounted: true,
      open: async ({ record }) => {
        await this.#wait()
        const end = () => this.#ends(record.id, 'stops')
        const sandbox = {
          exec: async () => this.#wait(),
          killAllProcesses: async () => 0,
          listSessions: async () => [],
          suspend: async (_: string, { busy }: SuspendOptions) => {
            if (busy === 'reject' && this.#busy.has(record.id))
              throw engineError('WORKSPACE_BUSY', 'a program')
            end()
            await turn()
          },
          async destroy() {
            end()
            await turn()
          },
        }
        return sandbox as unknown as Sandbox
      },
    }
    const registry = new Registry<R>({
      place,
      maxRunning: 4,
      logger: undefined,
      isKept,
      due,
      clock: this.#clock,
    })
    registry.onChange = ({ record }, change, now) => {
      this.#note(`${record.id} ${change}`)
      if (change === 'removed') this.#ends(record.id, 'is removed')
      this.#times.changed(record, change, now)
      const known = this.#known.get(record.id)
      if (known === undefined) return
      if (change === 'removed') this.#known.delete(record.id)
      else known.end = this.#times.endOf(record, change === 'running')
    }
    return registry
  }

  #ends(id: string, what: string): void {
    const known = this.#known.get(id)
    if (known === undefined || known.endings > 0 || this.#isEnding) return
    const now = this.#clock.now()
    if (now < known.end) this.#violations.push(`${id} ${what} ${known.end - now} ms before its time`)
  }

  async #step(): Promise<void> {
    const { hosted, hosted: { record } = {} } = this.#any() ?? {}
    const known = record === undefined ? undefined : this.#known.get(record.id)
    const choice = this.#random.below(100)
    if (choice < 15 && this.#known.size < MOST_SANDBOXES) this.#create()
    else if (choice < 45) await this.#clock.advance(this.#random.below(90_000))
    else if (choice < 46) await this.#restart()
    else if (choice < 56) await this.#settle()
    else if (hosted === undefined || record === undefined || known === undefined) await turn()
    else if (choice < 72) {
      this.#note(`${record.id} resume`)
      const renew = (isResumed: boolean) => {
        this.#times.renew(record, isResumed, this.#random, this.#clock.now())
        known.end = this.#times.endOf(record, true)
      }
      this.#call(this.#registry.resume(hosted, this.#snapshot(), renew))
    } else if (choice < 82) {
      if (hosted.state !== 'running') return
      this.#note(`${record.id} renew`)
      const renew = () => {
        this.#times.renew(record, false, this.#random, this.#clock.now())
        known.end = this.#times.endOf(record, true)
      }
      this.#call(this.#registry.renew(hosted, renew))
    } else if (choice < 92) this.#end(known, 'pause', this.#registry.pause(hosted, this.#snapshot()))
    else if (choice < 95) this.#end(known, 'remove', this.#registry.remove(hosted))
    else if (choice < 99) this.#call(this.#registry.save(hosted))
    else if (this.#busy.delete(record.id)) known.retried = this.#clock.now() + RETRY_TIME
    else this.#busy.add(record.id)
  }

  #create(): void {
    const record = this.#times.create(this.#random, this.#clock.now())
    this.#note(`${record.id} create`)
    const created = this.#registry.create(record).then((hosted) => {
      this.#known.set(record.id, { hosted, end: this.#times.endOf(record, true), endings: 0, retried: 0 })
      this.#registry.schedule(hosted)
    })
    this.#call(created)
  }

  #end(known: Known<R>, what: string, call: Promise<unknown>): void {
    this.#note(`${known.hosted.record.id} ${what}`)
    known.endings += 1
    this.#call(call.finally(() => (known.endings -= 1)))
  }

  /** Nothing is under way afterwards, and what was due has ended. */
  async #settle(): Promise<void> {
    while (this.#calls.size > 0) await Promise.all(this.#calls)
    // One that stops may have to be deleted at once.
    for (let time = 0; time < 3; time++) {
      for (const { hosted } of [...this.#known.values()]) await this.#registry.save(hosted)
      await this.#clock.advance(0)
    }
    for (const { hosted } of [...this.#known.values()]) await this.#registry.save(hosted)
    for (const { hosted, end, retried } of this.#known.values()) {
      const runsOn = hosted.state === 'running' && this.#isRefused(hosted)
      if (Math.max(end, retried) <= this.#clock.now() && !runsOn)
        this.#violations.push(`${hosted.record.id} does not end at its time`)
    }
  }

  #isRefused(hosted: Hosted<R>): boolean {
    const due = this.#times.due(hosted, this.#clock.now())
    return due?.end === 'pause' && due.snapshot === 'full' && this.#busy.has(hosted.record.id)
  }

  #isOverdue(hosted: Hosted<R>): boolean {
    const due = this.#times.due(hosted, this.#clock.now())
    return due?.end === 'pause' && due.at <= this.#clock.now()
  }

  /** Another server goes on. */
  async #restart(): Promise<void> {
    await this.#settle()
    this.#note('restart')
    const keeps = ({ hosted }: Known<R>) =>
      hosted.state === 'paused' || this.#times.isKept || this.#isOverdue(hosted)
    const kept = [...this.#known.values()].filter(keeps).map(({ hosted }) => hosted.record)
    this.#isEnding = true
    await this.#registry.close()
    this.#isEnding = false
    this.#registry = this.#open()
    await this.#registry.load()
    this.#known.clear()
    for (const record of kept) {
      const hosted = this.#registry.get(record.id)
      if (hosted === undefined) this.#violations.push(`${record.id} is lost by a restart`)
      else
        this.#known.set(record.id, {
          hosted,
          end: this.#times.endOf(hosted.record, false),
          endings: 0,
          retried: 0,
        })
    }
    if (this.#registry.list().length > kept.length) this.#violations.push('a removed sandbox comes back')
  }

  /** Errors of the API are answers. */
  #call(call: Promise<unknown>): void {
    const settled = call.catch((error) => {
      if (!(error instanceof HttpError)) this.#violations.push(String(error))
    })
    this.#calls.add(settled)
    void settled.then(() => this.#calls.delete(settled))
  }

  #snapshot(): Snapshot {
    return SNAPSHOTS[this.#random.below(SNAPSHOTS.length)] ?? 'full'
  }

  #any(): Known<R> | undefined {
    return [...this.#known.values()][this.#random.below(this.#known.size)]
  }

  async #wait(): Promise<void> {
    for (let turns = this.#random.below(3); turns > 0; turns--) await turn()
  }

  #note(text: string): void {
    this.#history.push(`${this.#clock.now() % 1e9} ${text}`)
    if (this.#history.length > 100) this.#history.splice(0, 50)
  }
}
