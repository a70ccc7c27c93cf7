/**
 * One recording. It takes what happens without ever waiting for the disk: what comes too fast, or while the disk is full, is
 * dropped and counted.
 *
 * Output of 16 ms becomes one event. Its end is held back for some time when it may be the beginning of a secret.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'nacre'
import { clock, type redaction, report } from 'nacre/internal'
import { type CastCode, commentLine, eventLine, headerLine, type Size, sizeOf, sizeText } from './cast.js'
import { screenAfter } from './screen.js'

/** How long output is joined. */
const JOIN_MS = 16
/** How long the end of the output is held back: longer than between two outputs of a command. */
const HOLD_MS = 250
/** Characters and events that wait for the disk. */
const MOST_WAITING = 1024 * 1024
const MOST_EVENTS = 10_000
/** Characters of one event. */
const MOST_JOINED = 256 * 1024
const LONGEST_MARKER = 200
const LONGEST_TITLE = 1000
/** How long events wait for others, unless they have so many characters. */
const WRITE_MS = 200
const MUCH = 64 * 1024
/** When a full disk is tried again. */
const RETRY_MS = 1000

/** A file of a recording. */
export interface Segment {
  readonly file: string
  readonly bytes: number
}

/** Where the files are. */
export interface Files<S extends Segment = Segment> {
  /** Bytes of a file after which the next one begins. */
  readonly segmentBytes: number
  /** Whether files may grow. */
  readonly hasRoom: boolean
  /** Creates the next file of a recording. Rejects with the error of the disk. */
  begin(name: string): Promise<S>
  /** Adds all or nothing. Rejects with the error of the disk. */
  append(segment: S, text: string): Promise<void>
  /** What has been added. Throws if that is not there any more. */
  read(segment: S): AsyncIterable<Uint8Array>
  /** Nothing is added any more. Never rejects. */
  end(segment: S): Promise<void>
}

export interface TrackOptions {
  /** Names its files. */
  name: string
  /** For people. */
  title: string
  size: Size
}

/** An event, or bytes that are missing. */
type Entry = { time: Date; code: CastCode; data: string } | { missing: number }

export class Track {
  readonly #files: Files
  readonly #redactor: redaction.Redactor
  readonly #logger: Logger | undefined
  readonly #options: TrackOptions

  /** Output that is not an event yet, and when it began. */
  #output = ''
  #outputTime = new Date(0)
  #isJoining = false
  #soon: NodeJS.Timeout | undefined
  #timer: NodeJS.Timeout | undefined

  /** What waits for the disk. */
  #waiting: Entry[] = []
  #characters = 0
  #writing: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false

  #segment: Segment | undefined
  /** The lines with which it begins, until they are stored. */
  #head = ''
  /** Resolves when its files but the last are compressed. */
  #ended: Promise<unknown> = Promise.resolve()
  /** The size of the terminal at the end of the file. */
  #size: Size
  /** The time of its last event. */
  #last = new Date(0)

  constructor(files: Files, redactor: redaction.Redactor, logger: Logger | undefined, options: TrackOptions) {
    this.#files = files
    this.#redactor = redactor
    this.#logger = logger
    this.#options = options
    this.#size = options.size
  }

  output(time: Date, text: string): void {
    if (text === '') return
    if (this.#output === '') this.#outputTime = time
    this.#output += text
    if (this.#output.length > MOST_JOINED) {
      this.#flush('certain')
      return
    }
    if (this.#isJoining) return
    clock.clearTimeout(this.#timer)
    this.#isJoining = true
    this.#timer = clock.setTimeout(() => this.#flush('certain'), JOIN_MS)
  }

  marker(time: Date, text: string): void {
    this.#event(time, 'm', this.#redactor.hide(text).slice(0, LONGEST_MARKER))
  }

  resize(time: Date, size: Size): void {
    this.#event(time, 'r', sizeText(size))
  }

  exit(time: Date, status: number): void {
    this.#event(time, 'x', String(status))
  }

  /** Bytes of output are missing here. */
  lose(bytes: number): void {
    this.#flush('cut')
    this.#drop(bytes)
  }

  /** Resolves when more output is not dropped, or would be anyway: for output that can wait. */
  async room(): Promise<void> {
    await pause(JOIN_MS)
    while (this.#characters > MOST_WAITING / 2 && !this.#isFailing) await pause(JOIN_MS)
  }

  /** Resolves when everything is stored, as far as the disk takes it. */
  async close(): Promise<void> {
    this.#flush('all')
    this.#isClosed = true
    clock.clearTimeout(this.#retry)
    clock.clearTimeout(this.#soon)
    await this.#writing
    if (this.#waiting.length > 0) await this.#write()
    if (this.#segment !== undefined) await this.#files.end(this.#segment)
    await this.#ended
  }

  #event(time: Date, code: CastCode, data: string): void {
    this.#flush('all')
    this.#add({ time, code, data })
  }

  /**
   * Makes the output an event: all of it, all before a gap that may cut a secret, or what is certainly no beginning of a secret.
   * The rest waits for more output, or for some time.
   */
  #flush(what: 'all' | 'cut' | 'certain'): void {
    clock.clearTimeout(this.#timer)
    this.#isJoining = false
    const held = what === 'certain' ? this.#redactor.uncertainEnd(this.#output) : 0
    const end = this.#output.length - held
    const data = this.#redactor.hide(this.#output.slice(0, end), { start: false, end: what === 'cut' })
    if (data !== '') this.#add({ time: this.#outputTime, code: 'o', data })
    this.#output = this.#output.slice(end)
    if (held > 0) this.#timer = clock.setTimeout(() => this.#flush('all'), HOLD_MS)
  }

  #add(event: Extract<Entry, { code: CastCode }>): void {
    const isTooMuch = event.code === 'o' && this.#characters + event.data.length > MOST_WAITING
    if (isTooMuch || this.#waiting.length > MOST_EVENTS) {
      if (event.code === 'o') this.#drop(Buffer.byteLength(event.data))
      return
    }
    this.#waiting.push(event)
    this.#characters += event.data.length
    this.#start()
  }

  #drop(bytes: number): void {
    const last = this.#waiting.at(-1)
    if (last !== undefined && 'missing' in last) last.missing += bytes
    else this.#waiting.push({ missing: bytes })
  }

  /** Writes what waits, until nothing does: soon, since each write opens the file, or now when it is much. */
  #start(): void {
    if (this.#retry !== undefined) return
    if (this.#characters >= MUCH) this.#begin()
    else this.#soon ??= clock.setTimeout(() => this.#begin(), WRITE_MS)
  }

  #begin(): void {
    clock.clearTimeout(this.#soon)
    this.#soon = undefined
    if (this.#retry !== undefined || this.#isClosed) return
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined
      if (this.#waiting.length > 0 && !this.#isClosed) this.#start()
    })
  }

  /** Never rejects. */
  async #write(): Promise<void> {
    const entries = this.#waiting
    this.#waiting = []
    try {
      if (!this.#files.hasRoom) throw new Error('recordings that are still written have reached the limit')
      const segment = await this.#segmentFor(entries)
      const lines = new Lines(this.#last)
      const text = entries.map((entry) => lines.add(entry)).join('')
      await this.#files.append(segment, this.#head + text)
      this.#head = ''
      this.#last = lines.last
    } catch (error) {
      // Something has removed the file. Another one goes on.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') this.#segment = undefined
      this.#waiting = [...entries, ...this.#waiting]
      this.#retryLater(error)
      return
    }
    this.#isFailing = false
    for (const entry of entries) {
      if ('missing' in entry) continue
      this.#characters -= entry.data.length
      if (entry.code === 'r') this.#size = sizeOf(entry.data) ?? this.#size
    }
  }

  #retryLater(error: unknown): void {
    const { name } = this.#options
    if (!this.#isFailing) report(this.#logger, 'warn', `the recording ${name} cannot be written: ${error}`)
    this.#isFailing = true
    if (this.#isClosed) return
    this.#retry = clock.setTimeout(() => {
      this.#retry = undefined
      this.#start()
    }, RETRY_MS)
    this.#retry.unref()
  }

  /** The file to write to: a new one at first, and when the old one is full. */
  async #segmentFor(entries: Entry[]): Promise<Segment> {
    const old = this.#segment
    if (old !== undefined && old.bytes < this.#files.segmentBytes) return old
    const first = entries.find((entry) => 'time' in entry)
    const time = first?.time ?? new Date()
    // Commands may be able to remove or replace the file. Then the next one begins with an empty screen.
    const screen = old && (await screenAfter(this.#files.read(old)).catch(() => ''))
    const segment = await this.#files.begin(this.#options.name)
    const title = this.#redactor.hide(this.#options.title).slice(0, LONGEST_TITLE)
    this.#head = headerLine({ ...this.#size, time, title }) + (screen ? eventLine(0, 'o', screen) : '')
    this.#segment = segment
    this.#last = time
    // It takes a while, and nothing waits for it.
    if (old !== undefined) this.#ended = Promise.all([this.#ended, this.#files.end(old)])
    return segment
  }
}

/** Lines of a file. Each event has the time since the one before. */
class Lines {
  last: Date

  constructor(last: Date) {
    this.last = last
  }

  add(entry: Entry): string {
    if ('missing' in entry) return commentLine(`${entry.missing} bytes of output are missing here`)
    const { time, code, data } = entry
    const interval = Math.max(0, time.getTime() - this.last.getTime())
    this.last = new Date(this.last.getTime() + interval)
    return eventLine(interval, code, data)
  }
}
