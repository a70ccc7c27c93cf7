/** Follows the events of a sandbox, and writes a recording for each session and each process. */
import type { AnySandbox, LogEvent, Logger, Process, SandboxEvent } from 'nacre'
import { hiddenOf, isCode, plans, redaction, report, signalNumber } from 'nacre/internal'
import { backendOf, type backends } from 'nacre/internal/server'
import { planRecord } from '../options.js'
import type { Recorder as PublicRecorder, RecordOptions } from '../public.js'
import type { Size } from './cast.js'
import { SessionTrack } from './session-track.js'
import { ShellText } from './shell-text.js'
import { Store } from './store.js'
import { Track, type TrackOptions } from './track.js'

/** The size of what has no terminal. */
const SIZE = { cols: 120, rows: 40 }
/** Of a hostile server, commands can be longer. */
const LONGEST_COMMAND = 20_000
const LONGEST_ID = 128

/** See public.ts. */
export async function record(sandbox: AnySandbox, options: RecordOptions): Promise<PublicRecorder> {
  const { directory, limit, redact, logger } = planRecord(options)
  const store = await Store.open(directory, limit, logger)
  const recorder = new Recorder(
    sandbox,
    store,
    new redaction.Redactor([...redact, ...redaction.KNOWN_SECRETS], hiddenOf(sandbox)),
    logger,
  )
  await recorder.begun
  return recorder
}

/** What is recorded of a process. */
interface Recorded {
  pid: number
  track: Track
  /** Resolves when it is complete. */
  over: Promise<void>
  /** To be called when no event about the process follows. */
  onLastEvent(): void
}

interface Followed extends Pick<Process, 'id' | 'pid' | 'command'> {
  terminal: Size | null
}

class Recorder implements PublicRecorder {
  readonly directory: string
  readonly #sandbox: AnySandbox
  readonly #store: Store
  readonly #redactor: redaction.Redactor
  readonly #logger: Logger | undefined
  readonly #sessions = new Map<string, SessionTrack<Track>>()
  /** Those whose output is read. */
  readonly #processes = new Map<string, Recorded>()
  /** Aborted when the output of processes is not followed any more. */
  readonly #stop = new AbortController()
  /** Recordings that are being completed. */
  readonly #closing = new Set<Promise<void>>()
  readonly #events: backends.EventFeed
  /** Resolves when the processes that ran before are followed. */
  #known: Promise<void> = Promise.resolve()
  /** The cursor of the last event that counts, when that is known. */
  #last = Number.POSITIVE_INFINITY
  #cursor = 0
  /** Rejects when the events cannot be read. */
  readonly begun: Promise<void>
  readonly #over: Promise<void>
  #closed: Promise<void> | undefined

  constructor(sandbox: AnySandbox, store: Store, redactor: redaction.Redactor, logger: Logger | undefined) {
    this.directory = store.directory
    this.#sandbox = sandbox
    this.#store = store
    this.#redactor = redactor
    this.#logger = logger
    this.#events = this.#newFeed()
    const first = this.#events.next()
    this.begun = Promise.race([this.#events.begun, first]).then((begin) => {
      if (typeof begin === 'number') this.#cursor = Math.max(this.#cursor, begin)
    })
    this.#over = this.#run(first)
  }

  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    const end = this.#newFeed()
    const next = end.next().then(
      () => undefined,
      () => undefined,
    )
    // Undefined when the sandbox has ended: then the events end, too.
    const last = await Promise.race([end.begun, next])
    await end.return?.()
    if (last !== undefined) this.#endAt(last)
    await this.#over
  }

  /** Never rejects. */
  async #run(first: Promise<IteratorResult<SandboxEvent, undefined>>): Promise<void> {
    this.#known = this.#followRunning()
    try {
      for (let step = await first; !step.done; step = await this.#events.next()) {
        this.#receive(step.value)
        if (step.value.type === 'lost') this.#known = this.#known.then(() => this.#followRunning())
        this.#cursor = step.value.cursor
        if (this.#cursor >= this.#last) break
      }
    } catch (error) {
      report(this.#logger, 'warn', `the recording ends: ${error}`)
    }
    await this.#events.return?.()
    await this.#known
    this.#stop.abort()
    this.#endEvents()
    await Promise.all([...this.#processes.values()].map(({ over }) => over))
    for (const { track } of this.#sessions.values()) this.#complete(track)
    await Promise.all(this.#closing)
  }

  /** Nothing counts after the event with this cursor. */
  #endAt(cursor: number): void {
    this.#last = cursor
    if (this.#cursor >= cursor) void this.#events.return?.()
  }

  #newFeed(): backends.EventFeed {
    return backendOf(this.#sandbox).events(plans.planEvents({}))
  }

  #receive(event: SandboxEvent): void {
    switch (event.type) {
      case 'lost':
        report(this.#logger, 'warn', `${event.count} events of the sandbox are not recorded`)
        this.#endEvents()
        break
      case 'sessionEnded':
        this.#endSession(event.sessionId, event.time)
        break
      case 'commandStarted':
        this.#session(event.sessionId).start(event)
        break
      case 'commandOutput':
        this.#session(event.sessionId).output(event)
        break
      case 'commandDetached':
        this.#session(event.sessionId).detach(event)
        break
      case 'commandEnded':
        this.#session(event.sessionId).end(event)
        break
      case 'processStarted':
        this.#follow(event)
        break
      case 'processResized':
        this.#processes.get(event.id)?.track.resize(event.time, event)
        break
      case 'processEnded':
        this.#endEventsOf(event.id)
        break
      default:
    }
  }

  #session(id: string): SessionTrack<Track> {
    let session = this.#sessions.get(id)
    if (session === undefined) {
      session = new SessionTrack(
        this.#newTrack({ name: `session-${fileName(id)}`, title: `session ${id}`, size: SIZE }),
      )
      this.#sessions.set(id, session)
    }
    return session
  }

  #endSession(id: string, time: Date): void {
    const session = this.#sessions.get(id)
    if (session === undefined) return
    this.#sessions.delete(id)
    session.track.exit(time, 0)
    this.#complete(session.track)
  }

  #endEventsOf(id: string): void {
    const recorded = this.#processes.get(id)
    if (recorded !== undefined) recorded.onLastEvent()
    // The list of those that ran before may still have it as running.
    else void this.#known.then(() => this.#processes.get(id)?.onLastEvent())
  }

  /** None of the processes so far gets another event, or its last one may be lost. */
  #endEvents(): void {
    for (const { onLastEvent } of this.#processes.values()) onLastEvent()
  }

  /** Follows the processes that ran before, or whose start is not known. */
  async #followRunning(): Promise<void> {
    try {
      for (const process of await this.#sandbox.listProcesses())
        if (process.status === 'running' || process.status === 'starting') this.#follow(process)
    } catch (error) {
      if (!this.#stop.signal.aborted)
        report(this.#logger, 'warn', `running processes are not recorded: ${error}`)
    }
  }

  /** Has no effect for one that is followed already: it can be in a list and in an event. */
  #follow({ id, pid, command, terminal }: Followed): void {
    const earlier = this.#processes.get(id)
    if (earlier?.pid === pid) return
    earlier?.onLastEvent()
    const track = this.#newTrack({
      name: `process-${fileName(id)}`,
      title: command.slice(0, LONGEST_COMMAND),
      size: terminal ?? SIZE,
    })
    let onLastEvent = () => {}
    const lastEvent = new Promise<void>((resolve) => {
      onLastEvent = resolve
    })
    const over = (async () => {
      await earlier?.over
      await this.#copy(id, track, terminal !== null, lastEvent)
      if (this.#processes.get(id)?.track === track) this.#processes.delete(id)
      this.#complete(track)
    })()
    this.#processes.set(id, { pid, track, over, onLastEvent })
  }

  /** Copies the output of a process, and its end after its last event, which can arrive later. Never rejects. */
  async #copy(id: string, track: Track, hasTerminal: boolean, lastEvent: Promise<void>): Promise<void> {
    const decoder = new TextDecoder()
    const text = new ShellText()
    try {
      for await (const event of this.#output(id)) {
        if (event.missing !== undefined) track.lose(event.missing)
        if (event.type === 'exit') {
          await lastEvent
          return track.exit(event.time, statusOf(event))
        }
        const { time, type, data } = event
        track.output(time, hasTerminal ? decoder.decode(data, { stream: true }) : text.add(type, data))
        await track.room()
      }
    } catch (error) {
      if (isCode(error, 'PROCESS_NOT_FOUND', 'SANDBOX_DESTROYED')) return
      report(this.#logger, 'warn', `the recording of the process ${id} ends: ${error}`)
    }
  }

  /** The output of a process. When the recorder ends, what has been printed until then. */
  async *#output(id: string): AsyncGenerator<LogEvent<'buffer'>, void> {
    const { signal } = this.#stop
    let cursor = 0
    try {
      for await (const event of this.#sandbox.streamProcessLogs(id, { encoding: 'buffer', signal })) {
        if (event.type !== 'exit') cursor = event.cursor
        yield event
        if (event.type === 'exit') return
      }
    } catch (error) {
      if (!signal.aborted) throw error
      yield* this.#sandbox.streamProcessLogs(id, { encoding: 'buffer', cursor, follow: false })
    }
  }

  #newTrack(options: TrackOptions): Track {
    return new Track(this.#store, this.#redactor, this.#logger, options)
  }

  #complete(track: Track): void {
    const closing = track.close().finally(() => this.#closing.delete(closing))
    this.#closing.add(closing)
  }
}

/** Ids are fit for names of files; those of a hostile server need not be. */
function fileName(id: string): string {
  return id.replace(/[^\w.-]/g, '_').slice(0, LONGEST_ID)
}

export function statusOf({ exitCode, signal }: { exitCode: number | null; signal: string | null }): number {
  return exitCode ?? 128 + ((signal && signalNumber(signal as NodeJS.Signals)) || 0)
}
