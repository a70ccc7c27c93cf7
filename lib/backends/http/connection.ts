/**
 * Requests to the server, and their errors.
 */

import { refuseAborted } from '../../base/abort.js'
import { AbortError, engineError, OptionError, SandboxError } from '../../base/errors.js'
import { pause } from '../../base/waiting.js'
import { ByteBody } from './byte-body.js'
import { CallLimits } from './call-limits.js'
import { connectionError, errorOf, isEnvelope } from './failure.js'
import type { ClientPlan } from './options.js'
import { isDeleted, isRepeatable, mayPass, PAUSES_MS } from './repeat.js'
import type { Request } from './request.js'
import { openSocket, type Socket } from './socket.js'
import { readEvents, type ServerEvent } from './sse.js'

export class Connection {
  readonly #plan: ClientPlan
  /** The limits of the pending requests. */
  readonly #open = new Set<CallLimits>()
  readonly #sockets = new Set<Socket>()
  #isClosed = false

  constructor(plan: ClientPlan) {
    this.#plan = plan
  }

  get reconnectTimeout(): number {
    return this.#plan.reconnectTimeout
  }

  /** Ends all pending requests. */
  close(): void {
    this.#isClosed = true
    for (const limits of this.#open) limits.stop()
    for (const socket of this.#sockets) socket.close()
  }

  /** Begins to open a WebSocket; undefined where requests must be used instead. Throws SANDBOX_DESTROYED. */
  socket(path: string, query: Request['query']): Socket | undefined {
    this.check()
    const { url, protocols } = this.#plan
    const socket = protocols && openSocket(url + path + queryOf(query), protocols)
    if (socket === undefined) return undefined
    this.#sockets.add(socket)
    socket.addEventListener('close', () => this.#sockets.delete(socket))
    return socket
  }

  /** Throws SANDBOX_DESTROYED. */
  check(): void {
    if (this.#isClosed) throw engineError('SANDBOX_DESTROYED', 'the client has been destroyed')
  }

  /**
   * Makes a call and resolves with its reply. A long reply begins with blanks, and may hold an error in spite of its status.
   * Requests that are safe to repeat are repeated after a temporary failure.
   */
  async call<T>(request: Request): Promise<T> {
    const limits = this.#limits(request.signal, request.waits ? 0 : this.#plan.requestTimeout)
    try {
      for (let failures = 0; ; failures++) {
        try {
          const response = await this.#send(request, limits)
          return (await this.#read(response, request, limits)) as T
        } catch (error) {
          if (failures > 0 && isDeleted(request, error)) return {} as T
          const wait = PAUSES_MS[failures]
          if (wait === undefined || !limits.allows(wait) || !isRepeatable(request) || !mayPass(error))
            throw error
          await pause(wait, limits.signal)
        }
      }
    } finally {
      this.#open.delete(limits)
      limits.release()
    }
  }

  /** Makes a call whose reply is a stream of events. Throws when the connection breaks or the call is aborted. */
  async *events(request: Request): AsyncGenerator<ServerEvent, undefined> {
    const limits = this.#limits(request.signal, 0)
    try {
      const response = await this.#send(request, limits)
      if (!response.ok || response.body === null) {
        await this.#read(response, request, limits)
        throw connectionError(`${request.path} was not answered with events`)
      }
      yield* readEvents(response.body, limits.signal)
      if (limits.signal.aborted) throw limits.signal.reason
    } catch (error) {
      throw this.#explain(error, request, limits)
    } finally {
      this.#open.delete(limits)
      limits.release()
    }
  }

  /** Makes a call whose reply is a body of bytes. Ends when the body is read, or cancelled. */
  async bytes(request: Request): Promise<ByteBody> {
    const limits = this.#limits(request.signal, 0)
    const release = () => {
      this.#open.delete(limits)
      limits.release()
    }
    try {
      const response = await this.#send(request, limits)
      const { status, body } = response
      if (status !== 416 && (!response.ok || body === null)) {
        await this.#read(response, request, limits)
        throw connectionError(`${request.path} was not answered with bytes`)
      }
      const explain = (error: unknown) => this.#explain(error, request, limits)
      return new ByteBody(status === 416 ? null : body, limits.signal, explain, () => {
        release()
        limits.stop()
      })
    } catch (error) {
      release()
      throw this.#explain(error, request, limits)
    }
  }

  async #send(
    { method = 'POST', path, query, body, content, headers: own, ...asked }: Request,
    limits: CallLimits,
  ): Promise<Response> {
    this.check()
    refuseAborted(asked.signal, asked.subject)
    const type = body ? 'application/json' : content && 'application/octet-stream'
    const headers = { ...this.#plan.headers, ...(type && { 'content-type': type }), ...own }
    try {
      return await limits.answer(
        this.#plan.fetch(this.#plan.url + path + queryOf(query), {
          ...{ method, headers, signal: limits.signal },
          // No cookies, and no redirects to other servers.
          ...{ credentials: 'omit', redirect: 'error' },
          ...(body && { body: JSON.stringify(body) }),
          // A stream is sent while the server reads it.
          ...(content && { body: content as NonNullable<RequestInit['body']>, duplex: 'half' }),
        }),
      )
    } catch (error) {
      throw this.#explain(error, { path, ...asked }, limits)
    }
  }

  async #read(response: Response, request: Request, limits: CallLimits): Promise<unknown> {
    const { status } = response
    let text: string
    try {
      text = await response.text()
    } catch (error) {
      throw this.#explain(error, request, limits)
    }
    const reply = parse(text)
    if (isEnvelope(reply)) throw errorOf(reply, request)
    if (!response.ok) throw connectionError(`${request.path} was answered with status ${status}`, { status })
    if (reply === undefined)
      throw this.#explain(new SyntaxError('the reply is not JSON, or was cut off'), request, limits)
    return reply
  }

  /** The error for what `fetch` throws, which says little and differs between runtimes. */
  #explain(error: unknown, { path, signal, subject }: Request, limits: CallLimits): unknown {
    this.check()
    if (signal?.aborted) return new AbortError(signal.reason, undefined, subject)
    // An error of this library needs no explanation.
    if (isOurs(error)) return error
    const what = `${this.#plan.url}${path}`
    if (limits.isLate) {
      const time = `${this.#plan.requestTimeout} ms (requestTimeout)`
      return connectionError(`${what} was not answered within ${time}`, error)
    }
    return connectionError(`${what} cannot be reached, or the connection broke`, error)
  }

  /** The caller, the end of the client and the time limit end a request. */
  #limits(signal: AbortSignal | undefined, timeout: number): CallLimits {
    const limits = new CallLimits(signal, timeout)
    this.#open.add(limits)
    return limits
  }
}

/** Undefined when it is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isOurs(error: unknown): boolean {
  return error instanceof SandboxError || error instanceof OptionError || error instanceof AbortError
}

function queryOf(query: Request['query']): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {}))
    if (value !== undefined) parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}
