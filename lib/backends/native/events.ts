/**
 * The feed of events of a sandbox, as an iteration. It reads a batch at a time and nothing ahead, so a slow reader loses
 * events, and learns how many.
 */
import { refuseAborted } from '../../base/abort.js'
import { isCode } from '../../base/errors.js'
import { signalName } from '../../base/signals.js'
import { Steps } from '../../base/steps.js'
import type {
  NativeDenial,
  NativeFeed,
  NativeFeedEvent,
  NativePty,
  NativeRequest,
  NativeSandbox,
  NativeWaiting,
} from '../../boundary/index.js'
import type { SandboxEvent } from '../../calls/index.js'
import type { EventPlan } from '../../requests/events.js'
import { denialOf } from './denials.js'
import type { Engine } from './engine.js'
import { killedByOf } from './processes/handle.js'
import { waitingOf } from './processes/waiting.js'
import { usageOf } from './result.js'

const BATCH = 256
const SUBJECT = 'reading the events'

export class NativeEvents extends Steps<SandboxEvent> {
  readonly #engine: Engine
  readonly #signal: AbortSignal | undefined
  /** The cursor at which it begins. */
  readonly since: number
  readonly begun: Promise<number>
  #cursor: number
  #ready: SandboxEvent[] = []
  #hasBegun = false
  #isOver = false
  readonly #stop = new AbortController()

  constructor(engine: Engine, { since, signal }: EventPlan) {
    super()
    this.#engine = engine
    this.#signal = signal
    this.since = since ?? (engine.isDestroyed ? undefined : engine.ask((native) => native.lastEvent())) ?? 0
    this.begun = engine.isDestroyed ? new Promise(() => {}) : Promise.resolve(this.since)
    this.#cursor = this.since
  }

  protected async step(): Promise<IteratorResult<SandboxEvent, undefined>> {
    for (;;) {
      if (!this.#isOver) refuseAborted(this.#signal, SUBJECT)
      const value = this.#ready.shift()
      if (value !== undefined) return { done: false, value }
      if (this.#isOver) return { done: true, value: undefined }
      await this.#read()
    }
  }

  protected end(): void {
    this.#isOver = true
    this.#ready = []
    this.#stop.abort()
  }

  async #read(): Promise<void> {
    const read = (native: NativeSandbox, id: number) => native.readEvents(id, this.#cursor, BATCH)
    try {
      // An observer sees the end of a sandbox that is being destroyed.
      const feed = await this.#engine.observe(read, true, this.#signal, this.#stop.signal)
      this.#hasBegun = true
      if (feed !== null && !this.#isOver) this.#receive(feed)
    } catch (error) {
      // The sandbox was destroyed between two steps.
      if (!this.#hasBegun || !isCode(error, 'SANDBOX_DESTROYED')) throw error
      this.#isOver = true
    }
  }

  #receive({ events, lost, isOver }: NativeFeed): void {
    const shown = events.map(eventOf)
    if (lost > 0) {
      const [first] = shown
      const cursor = this.#cursor + lost
      shown.unshift({ type: 'lost', cursor, time: first?.time ?? new Date(), count: lost })
    }
    this.#ready = shown
    this.#cursor = shown.at(-1)?.cursor ?? this.#cursor
    this.#isOver = isOver
  }
}

function eventOf(native: NativeFeedEvent): SandboxEvent {
  const { cursor, sessionId, kind, id = '', command = '', pid = 0, exitCode = null, reason = null } = native
  const { target = '', request } = native
  const about = request && { request }
  const { total: [stdoutBytes = 0, stderrBytes = 0] = [] } = native
  const base = { cursor, time: new Date(native.time), sessionId }
  const signal = native.signal === undefined ? null : signalName(native.signal)
  const killedBy = killedByOf(native.killedBy)
  switch (kind) {
    case 'sessionStarted':
    case 'sessionEnded':
      return { ...base, type: kind }
    case 'commandQueued':
      return { ...base, type: kind, id, command }
    case 'commandStarted':
      return { ...base, type: kind, id, command, pid }
    case 'commandOutput': {
      const { stdout = new Uint8Array(), stderr = new Uint8Array() } = native
      return { ...base, type: kind, id, stdout, stderr, stdoutBytes, stderrBytes }
    }
    case 'commandWaiting':
    case 'processWaiting':
      return { ...base, type: kind, id, waiting: waitingOf(native.waiting as NativeWaiting) }
    case 'commandDetached':
      return { ...base, type: kind, id, processId: native.processId ?? '' }
    case 'commandEnded': {
      const { duration = 0, cwd = '', usage } = native
      return {
        ...base,
        type: kind,
        ...{ id, exitCode, signal, killedBy, duration, stdoutBytes, stderrBytes, cwd },
        ...(usage && { usage: usageOf(usage.cpu, usage) }),
      }
    }
    case 'processStarted':
      return { ...base, type: kind, id, command, pid, terminal: native.terminal ?? null }
    case 'processResized': {
      const { cols, rows } = native.terminal as NativePty
      return { ...base, type: kind, id, cols, rows }
    }
    case 'processEnded':
      return { ...base, type: kind, id, exitCode, signal, reason, killedBy }
    case 'serviceRestarted':
      return { ...base, type: kind, id, restarts: native.restarts ?? 0 }
    case 'denied':
      return { ...base, type: kind, denial: denialOf(native.denial as NativeDenial) }
    case 'request': {
      const { status = null, secrets, denied, duration: ms = 0, protocol = 'http/1.1' } = native
      const { method, path } = request as NativeRequest
      return {
        ...{ ...base, type: kind, host: target, method, path, status },
        ...{ sent: stdoutBytes, received: stderrBytes, ms, protocol },
        ...(secrets && { secrets }),
        ...(denied && { denied }),
      }
    }
    case 'asked':
      return { ...base, type: kind, id, target, ...about, expiresAt: new Date(native.expiresAt ?? 0) }
    case 'answered':
      return { ...base, type: kind, id, target, ...about, answer: native.answer ?? null }
  }
}
