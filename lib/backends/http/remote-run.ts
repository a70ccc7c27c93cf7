/**
 * The run of a command on the server, told to the same observer as one in this process.
 *
 * The reply to the request is the run's events. Its first one has the run's id, so whatever is then said about the run
 * (input, kill, abort) is said about one that there is. Should the connection break, the server kills the command: nobody
 * could say what became of it.
 */

import { onAbort, refuseAborted } from '../../base/abort.js'
import type { ExecRequest } from '../../requests/exec.js'
import { STDERR, STDOUT } from '../../requests/source.js'
import { InputFeed } from '../../run/input.js'
import type { Result, RunObserver, StreamRun } from '../../run/run.js'
import type { Connection } from './connection.js'
import { connectionError, errorOf, refusalCode } from './failure.js'
import type { Sendable } from './plan.js'
import type { Turn } from './session-order.js'
import type { ServerEvent } from './sse.js'
import { bytesOf, encodeBytes, piecesOf, resultOf } from './wire.js'

/** Pieces that the consumer may be behind; then the connection is left alone, and in the end the command waits. */
const WINDOW = 16

/** For a run that nothing listens to. */
export const SILENT: RunObserver = { start() {}, output: () => false, end() {} }

export class RemoteRun implements StreamRun {
  readonly outcome: Promise<Result>
  readonly #connection: Connection
  readonly #request: ExecRequest
  readonly #sendable: Sendable
  readonly #observer: RunObserver
  readonly #turn: Turn
  /** Rejects when there will never be one. */
  readonly #id: Promise<string>
  #tellId: (id: string) => void = () => {}
  #denyId: (error: Error) => void = () => {}
  #credit = WINDOW
  #proceed = () => {}
  /** The command is being ended: what is left of its output holds nobody up. */
  #isStopping = false
  #isOver = false
  #thrown: { value: unknown } | undefined
  readonly #cut = new AbortController()

  /** Starts the run at once, or when the server has what was begun before in its session. */
  constructor(
    connection: Connection,
    request: ExecRequest,
    sendable: Sendable,
    observer: RunObserver,
    turn: Turn,
  ) {
    this.#connection = connection
    this.#request = request
    this.#sendable = sendable
    this.#observer = observer
    this.#turn = turn
    this.#id = new Promise((resolve, reject) => {
      this.#tellId = resolve
      this.#denyId = reject
    })
    this.#id.catch(() => {})
    this.outcome = this.#perform()
  }

  giveBack(permits: number): void {
    this.#credit += permits
    if (this.#credit > 0) this.#proceed()
  }

  async kill(signal: number | null): Promise<boolean> {
    if (this.#isOver) return this.#wasKilled()
    this.#stopWaiting()
    try {
      const body = signal === null ? {} : { signal }
      const reply = await this.#ask<{ killed: boolean }>('kill', body)
      return reply.killed
    } catch (error) {
      if (this.#isOver || refusalCode(error) === 'RUN_NOT_FOUND') return this.#wasKilled()
      this.#cut.abort()
      throw error
    }
  }

  /** Whether a run that has ended was ended early. */
  async #wasKilled(): Promise<boolean> {
    try {
      return (await this.outcome).isCanceled
    } catch (error) {
      return (error as { result?: Result }).result?.isCanceled ?? false
    }
  }

  async #perform(): Promise<Result> {
    const { signal } = this.#request.values
    const { source } = this.#sendable
    let feed: InputFeed | undefined
    let release = () => {}
    try {
      refuseAborted(signal)
      feed = source && new InputFeed(source)
      release = onAbort(signal, () => this.#abort())
      feed?.feed({
        write: async (data) => {
          for (const piece of piecesOf(data)) await this.#give({ data: encodeBytes(piece) })
        },
        closeInput: () => void this.#give({ end: true }).catch((error) => this.#fail(error)),
        fail: (error) => this.#fail(error),
      })
      if (this.#turn.begins !== undefined) {
        await orAborted(this.#turn.begins, signal)
        refuseAborted(signal)
      }
      return await this.#follow()
    } finally {
      this.#isOver = true
      this.#turn.end()
      release()
      feed?.close()
      this.#denyId(connectionError('the run is over'))
    }
  }

  async #follow(): Promise<Result> {
    const request = { path: '/v1/exec/stream', body: this.#sendable.body, signal: this.#cut.signal }
    let end: (() => Result) | undefined
    for await (const { data } of this.#connection.events(request)) {
      // After the last one the response ends by itself, and its connection can be used again.
      end ??= this.#receive(data)
      while (this.#credit <= 0 && !this.#isStopping) await this.#permits()
    }
    this.#tell(() => this.#observer.end())
    if (this.#thrown !== undefined) throw this.#thrown.value
    if (end === undefined) throw connectionError('the events of the command ended early')
    return end()
  }

  /** What the last event comes to. */
  #receive(data: ServerEvent['data']): (() => Result) | undefined {
    const { encoding, values } = this.#request
    const { signal } = values
    switch (data.type) {
      case 'run':
        this.#tellId(data.runId)
        this.#turn.end()
        return undefined
      case 'start':
        this.#tell(() => this.#observer.start(data.pid))
        return undefined
      case 'stdout':
      case 'stderr': {
        const stream = data.type === 'stderr' ? STDERR : STDOUT
        const isKept = this.#tell(() => this.#observer.output(stream, bytesOf(data.data)))
        if (isKept) this.#credit--
        return undefined
      }
      case 'complete':
        return () => resultOf(data.result, encoding)
      default:
        return () => {
          throw errorOf(data.error, { encoding, signal })
        }
    }
  }

  /** An observer that threw is not told anything any more, and the command ends. */
  #tell<T>(notify: () => T): T | undefined {
    if (this.#thrown !== undefined) return undefined
    try {
      return notify()
    } catch (error) {
      this.#fail(error)
      return undefined
    }
  }

  #fail(value: unknown): void {
    this.#thrown ??= { value }
    this.#abort()
  }

  /** A run that has ended wants no more. Otherwise input that cannot be given is lost, and the command must not wait for it. */
  async #give(input: object): Promise<void> {
    try {
      await this.#ask('input', input)
    } catch (error) {
      if (!this.#isOver && refusalCode(error) !== 'RUN_NOT_FOUND') throw error
    }
  }

  /** Should the server not be able to be told, the end of the connection tells it. */
  #abort(): void {
    this.#stopWaiting()
    this.#ask('abort', undefined).catch(() => {
      if (!this.#isOver) this.#cut.abort()
    })
  }

  #stopWaiting(): void {
    this.#isStopping = true
    this.#proceed()
  }

  #permits(): Promise<void> {
    return new Promise((resolve) => {
      this.#proceed = resolve
    })
  }

  async #ask<T>(what: string, body: object | undefined): Promise<T> {
    const id = await this.#id
    return this.#connection.call<T>({ path: `/v1/runs/${id}/${what}`, body, waits: true })
  }
}

async function orAborted(promise: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  let release = () => {}
  const aborted = new Promise<void>((resolve) => {
    release = onAbort(signal, resolve)
  })
  await Promise.race([promise, aborted])
  release()
}
