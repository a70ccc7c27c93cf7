/**
 * Requests to the server, and the errors that come back.
 */
import type { Logger } from '../../index.js'
import { onAbort, refuseAborted } from '../abort.js'
import { AbortError, engineError, OptionError, SandboxError } from '../errors.js'
import { type Asked, connectionError, errorOf, isEnvelope } from './failure.js'
import type { ClientPlan } from './options.js'
import { readEvents, type ServerEvent } from './sse.js'

export interface Request extends Asked {
  method?: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string | number | boolean | undefined>
  body?: object
}

export class Connection {
  readonly #plan: ClientPlan
  /** What ends the requests that are under way. */
  readonly #open = new Set<() => void>()
  #isClosed = false

  constructor(plan: ClientPlan) {
    this.#plan = plan
  }

  get logger(): Logger | undefined {
    return this.#plan.logger
  }

  get reconnectTimeout(): number {
    return this.#plan.reconnectTimeout
  }

  /** Ends every request that is under way. */
  close(): void {
    this.#isClosed = true
    for (const stop of this.#open) stop()
  }

  /** Throws SANDBOX_DESTROYED. */
  check(): void {
    if (this.#isClosed) throw engineError('SANDBOX_DESTROYED', 'the client has been destroyed')
  }

  /** Makes a call and gives its reply. A long one begins with blanks and may be an error in spite of its status. */
  async call<T>(request: Request): Promise<T> {
    const { release, signal } = this.#limits(request.signal)
    try {
      const response = await this.#send(request, signal)
      return (await this.#read(response, request)) as T
    } finally {
      release()
    }
  }

  /** Makes a call whose reply is events. They end early, by an error, when the connection breaks or is aborted. */
  async *events(request: Request): AsyncGenerator<ServerEvent, undefined> {
    const { release, signal } = this.#limits(request.signal)
    try {
      const response = await this.#send(request, signal)
      if (!response.ok || response.body === null) {
        await this.#read(response, request)
        throw connectionError(`${request.path} was not answered with events`)
      }
      yield* readEvents(response.body)
    } catch (error) {
      throw this.#explain(error, request)
    } finally {
      release()
    }
  }

  async #send(
    { method = 'POST', path, query, body, ...asked }: Request,
    signal: AbortSignal,
  ): Promise<Response> {
    this.check()
    refuseAborted(asked.signal, asked.subject)
    const headers = { ...this.#plan.headers, ...(body && { 'content-type': 'application/json' }) }
    try {
      return await this.#plan.fetch(this.#plan.url + path + queryOf(query), {
        ...{ method, headers, signal },
        // Cookies and pages that a server may point to are none of this client's business.
        ...{ credentials: 'omit', redirect: 'error' },
        ...(body && { body: JSON.stringify(body) }),
      })
    } catch (error) {
      throw this.#explain(error, { path, ...asked })
    }
  }

  async #read(response: Response, request: Request): Promise<unknown> {
    let reply: unknown
    try {
      reply = JSON.parse(await response.text())
    } catch (error) {
      throw this.#explain(error, request)
    }
    if (isEnvelope(reply)) throw errorOf(reply, request)
    if (!response.ok) throw connectionError(`${request.path} was answered with status ${response.status}`)
    return reply
  }

  /** What `fetch` throws says little, and differs everywhere. */
  #explain(error: unknown, { path, signal, subject }: Request): unknown {
    this.check()
    if (signal?.aborted) return new AbortError(signal.reason, undefined, subject)
    // Errors of this library have been explained already.
    if (isOurs(error)) return error
    return connectionError(`${this.#plan.url}${path} cannot be reached, or the connection broke`, error)
  }

  /** Both the caller and the end of the client end a request. */
  #limits(signal: AbortSignal | undefined): { signal: AbortSignal; release: () => void } {
    const both = new AbortController()
    const stop = () => both.abort()
    this.#open.add(stop)
    const ignore = onAbort(signal, stop)
    return {
      signal: both.signal,
      release: () => {
        this.#open.delete(stop)
        ignore()
      },
    }
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
