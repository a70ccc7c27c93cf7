/**
 * Requests to the server, and their errors.
 */

import { refuseAborted } from '../../base/abort.js'
import { AbortError, engineError } from '../../base/errors.js'
import { ownOnly } from '../../base/own.js'
import type { LostSandbox } from '../../calls/index.js'
import type { Endpoint } from '../../protocol/endpoint.js'
import { healthCheck } from '../../protocol/endpoints.js'
import { malformed } from '../../schema/reply.js'
import { ByteBody } from './byte-body.js'
import { CallLimits } from './call-limits.js'
import { connectionError, isBusy, isOurs } from './failure.js'
import { Generation } from './generation.js'
import { decodeList } from './long-list.js'
import { OpenSockets } from './open-sockets.js'
import type { ClientPlan } from './options.js'
import { hintForPages } from './page-origin.js'
import { PersistentCalls } from './persistent-calls.js'
import { isTransient, repeated } from './repeat.js'
import { isFromServer, isOfEvents, readReply } from './reply.js'
import { type Details, fetchOptions, queryOf, type Request, requestTo } from './request.js'
import type { LossError, Route } from './route.js'
import type { Socket } from './socket.js'
import { readEvents, type ServerEvent } from './sse.js'
import { Watchdog } from './watchdog.js'

export class Connection {
  readonly #plan: ClientPlan
  /** The limits of the pending requests. */
  readonly #open = new Set<CallLimits>()
  readonly #sockets = new OpenSockets()
  readonly #route: Route
  readonly #generation: Generation
  readonly #persistent: PersistentCalls | undefined
  /** Calls with a number, which can be cancelled without breaking their connections. */
  readonly #numbered: PersistentCalls
  readonly #lossError: LossError
  #isClosed = false
  #lost: LostSandbox['reason'] | undefined

  /** `lossError` makes the error of calls after the sandbox was lost. */
  constructor(plan: ClientPlan, lossError: LossError) {
    this.#plan = plan
    this.#route = plan.route
    this.#generation = new Generation(plan.route)
    this.#lossError = lossError
    this.#numbered = new PersistentCalls({
      reconnectTimeout: plan.resume ? plan.reconnectTimeout : 0,
      sandbox: plan.route.name,
      once: (endpoint, details) => this.#once(endpoint, details),
      isThere: (limit) => this.#isThere(limit),
      events: (request) => this.events(request),
      check: () => this.check(),
      final: (error) => this.final(error),
    })
    if (plan.resume) this.#persistent = this.#numbered
  }

  /** Whether calls survive broken connections. */
  get resumes(): boolean {
    return this.#persistent !== undefined
  }

  /** Resolves with the server's instance, when the server takes calls. Nothing runs. */
  async connect(signal: AbortSignal | undefined): Promise<string | undefined> {
    await this.#withLimits({ path: '', signal, waits: true }, async (limits) => {
      await this.#persistent?.connect(limits.signal)
    })
    return this.#generation.instance
  }

  /** The pending requests. */
  get active(): number {
    return this.#open.size + this.#sockets.size
  }

  get reconnectTimeout(): number {
    return this.#plan.reconnectTimeout
  }

  /** Why the sandbox is lost; undefined while it is not. */
  get lost(): LostSandbox['reason'] | undefined {
    return this.#lost
  }

  /** Ends all pending requests, also on the server, unless that has ended. */
  async close(isServerGone = false): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#stop()
    if (this.#lost === undefined && !isServerGone) await this.#numbered.close().catch(() => {})
  }

  /** Ends all pending requests: the sandbox is lost. Later ones fail in the same way. */
  lose(reason: LostSandbox['reason']): void {
    if (this.#isClosed) return
    this.#lost ??= reason
    this.#stop()
  }

  #stop(): void {
    for (const limits of this.#open) limits.stop()
    this.#sockets.close()
  }

  /** Begins to open a WebSocket; undefined where requests must be used instead. Throws SANDBOX_DESTROYED. */
  async socket(path: string, query: Request['query']): Promise<Socket | undefined> {
    this.check()
    const { url, headers } = await this.#route.target(new AbortController().signal)
    this.check()
    const all = { ...this.#plan.headers, ...headers, ...this.#generation.headers }
    const socket = this.#route.socket(url + path + queryOf(query), all)
    if (socket === undefined) return undefined
    this.#route.used()
    this.#sockets.add(socket, this.#watchdog({ signal: new AbortController().signal }))
    return socket
  }

  /** The URL of a path on the server. */
  async urlOf(path: string): Promise<string> {
    return (await this.#route.target(new AbortController().signal)).url + path
  }

  /** Throws SANDBOX_DESTROYED or SANDBOX_LOST. */
  check(): void {
    if (this.#lost !== undefined) throw this.#lossError(this.#lost)
    if (this.#isClosed)
      throw engineError('SANDBOX_DESTROYED', 'the client has been destroyed; create another one')
  }

  /**
   * Makes a call and resolves with its reply. A long reply begins with blanks, and may hold an error in spite of its status.
   * Requests that are safe to repeat are repeated after a temporary failure.
   */
  async call<T>(endpoint: Endpoint<T>, details: Details = {}): Promise<T> {
    const request = requestTo(endpoint, details)
    const json = await this.#withLimits(request, async (limits) => {
      const attempt = (single: Request) => this.#attempt(single, limits)
      const calls = request.cancel === undefined ? this.#persistent : this.#numbered
      return calls?.call(request, limits, attempt) ?? repeated(request, limits, attempt)
    })
    if (request.list !== undefined) return decodeList(endpoint.reply, json, request.list)
    return endpoint.reply.decode(json, request.encoding)
  }

  /** Makes a request once. */
  async #once<T>(endpoint: Endpoint<T>, details: Details): Promise<T> {
    const request = requestTo(endpoint, details)
    return endpoint.reply.decode(await this.#withLimits(request, (limits) => this.#attempt(request, limits)))
  }

  async #withLimits<T>(request: Request, perform: (limits: CallLimits) => Promise<T>): Promise<T> {
    refuseAborted(request.cancel ?? request.signal, request.subject)
    const limits = this.#limits(request.signal, request.waits ? 0 : this.#plan.requestTimeout)
    try {
      return await perform(limits)
    } catch (error) {
      throw isOurs(error) ? error : this.#explain(error, request, limits)
    } finally {
      this.#release(limits)
    }
  }

  async #attempt(request: Request, limits: CallLimits): Promise<unknown> {
    const watchdog = request.waits ? this.#watchdog(limits) : undefined
    try {
      const single = { ...request, ...(watchdog && { cut: watchdog.signal }) }
      return await this.#read(await this.#send(single, limits), single, limits)
    } finally {
      watchdog?.end()
    }
  }

  /** For calls that may wait for hours. Without calls that survive their connections, nothing could follow a cut. */
  #watchdog({ signal }: Pick<CallLimits, 'signal'>): Watchdog | undefined {
    if (this.#persistent === undefined) return undefined
    return new Watchdog(signal, this.#plan.reconnectTimeout, (limit) => this.#isThere(limit))
  }

  /** A server that refuses for its load or its end is there. */
  #isThere(signal: AbortSignal): Promise<boolean> {
    return this.#once(healthCheck, { signal }).then(() => true, isBusy)
  }

  /** The error of a call whose server has not answered in time: the sandbox may be lost. */
  async final(error: unknown): Promise<unknown> {
    const reason = await this.#route.lost()
    if (reason === undefined) return error
    this.lose(reason)
    return this.#lossError(reason)
  }

  /** Makes a call whose reply is a stream of events. Throws when the connection breaks or the call is aborted. */
  async *events(request: Request): AsyncGenerator<ServerEvent, undefined> {
    const limits = this.#limits(request.signal, 0)
    const watchdog = this.#watchdog(limits)
    const stop = watchdog?.signal ?? limits.signal
    try {
      const { onOpen, ...rest } = request
      const response = await this.#send({ ...rest, cut: stop }, limits)
      if (response.body === null || !isFromServer(response) || !isOfEvents(response)) {
        await this.#read(response, request, limits)
        throw malformed()
      }
      onOpen?.()
      yield* readEvents(response.body, stop)
      if (stop.aborted) throw stop.reason
    } catch (error) {
      throw this.#explain(error, request, limits)
    } finally {
      watchdog?.end()
      this.#release(limits)
    }
  }

  /** Makes a call that runs a command. Its events continue after a broken connection, if the client resumes calls. */
  runEvents(request: Request, stop: AbortSignal): AsyncGenerator<ServerEvent, undefined> {
    return this.#persistent?.events(request, stop) ?? this.events(request)
  }

  /** Makes a call whose reply is a body of bytes. Ends when the body is read, or cancelled. */
  async bytes(request: Request): Promise<ByteBody> {
    refuseAborted(request.signal, request.subject)
    const limits = this.#limits(request.signal, 0)
    const attempt = (single: Request) => this.#openBytes(single, limits)
    try {
      return await (this.#persistent?.call(request, limits, attempt) ?? attempt(request))
    } catch (error) {
      this.#release(limits)
      throw this.#explain(error, request, limits)
    }
  }

  async #openBytes(request: Request, limits: CallLimits): Promise<ByteBody> {
    const watchdog = this.#watchdog(limits)
    const stop = watchdog?.signal ?? limits.signal
    try {
      const response = await this.#send({ ...request, cut: stop }, limits)
      const { status, body } = response
      if (status !== 416 && (body === null || !isFromServer(response))) {
        await this.#read(response, request, limits)
        throw connectionError(`${request.path} was not answered with bytes`)
      }
      const explain = async (error: unknown) => {
        const explained = this.#explain(error, request, limits)
        return watchdog !== undefined && isTransient(explained) ? this.final(explained) : explained
      }
      return new ByteBody(response, stop, explain, () => {
        watchdog?.end()
        this.#release(limits)
        limits.stop()
      })
    } catch (error) {
      watchdog?.end()
      throw error
    }
  }

  async #send(given: Request, limits: CallLimits): Promise<Response> {
    const request = ownOnly(given)
    const { path, query, headers: own, onOpen, isFarewell, cut, signal, subject } = request
    if (!isFarewell) this.check()
    refuseAborted(signal, subject)
    try {
      const target = await limits.answer(Promise.resolve(this.#route.target(limits.signal)))
      if (!isFarewell) this.check()
      const headers = { ...this.#plan.headers, ...target.headers, ...own, ...this.#generation.headers }
      this.#route.used()
      const response = await limits.answer(
        this.#plan.fetch(
          target.url + path + queryOf(query),
          fetchOptions(request, headers, cut ?? limits.signal),
        ),
      )
      if (!this.#generation.accepts(response)) this.lose('replaced')
      if (!isFarewell) this.check()
      if (isFromServer(response)) onOpen?.()
      return response
    } catch (error) {
      throw this.#explain(error, request, limits)
    }
  }

  #read(response: Response, request: Request, limits: CallLimits): Promise<unknown> {
    const stop = request.cut ?? limits.signal
    return readReply(response, request, stop, (error) => this.#explain(error, request, limits))
  }

  /** The error for what `fetch` throws, which says little and differs between runtimes. */
  #explain(error: unknown, { path, signal, subject }: Request, limits: CallLimits): unknown {
    this.check()
    if (signal?.aborted) return new AbortError(signal.reason, undefined, subject)
    // An error of this library needs no explanation, but the end of the time limit comes as an abort.
    if (isOurs(error) && !limits.isLate) return error
    const what = `${this.#route.name}${path}`
    if (limits.isLate) {
      const time = `${this.#plan.requestTimeout} ms (requestTimeout)`
      return connectionError(`${what} was not answered within ${time}`, error)
    }
    return connectionError(
      `${what} cannot be reached, or the connection broke: check that the server runs, and its URL${hintForPages(what)}`,
      error,
    )
  }

  /** The caller, the end of the client and the time limit end a request. */
  #limits(signal: AbortSignal | undefined, timeout: number): CallLimits {
    const limits = new CallLimits(signal, timeout)
    this.#open.add(limits)
    return limits
  }

  #release(limits: CallLimits): void {
    this.#open.delete(limits)
    limits.release()
  }
}
