/**
 * One sandbox's connection to the addon: created by the first call, kept alive while calls are pending.
 */

import { loadAddon } from '../../addon/load.js'
import { onAbort, refuseAborted } from '../../base/abort.js'
import { AbortError, engineError, meaningOf, OptionError, SandboxError } from '../../base/errors.js'
import { ownOnly } from '../../base/own.js'
import type { NativeEvent, NativeSandbox, Pending } from '../../boundary/index.js'
import type { Logger } from '../../calls/index.js'
import { CallTable, isLast, type Observer } from './call-table.js'
import { History } from './history.js'
import type { SandboxConfig } from './plan/sandbox.js'

/** Sends one call across the boundary under the given id. Its last event has a `T`, which a call that ends at once returns. */
export type Send<T> = (native: NativeSandbox, id: number) => Pending<T> | NonNullable<T> | null

/** Sends a command, and returns its last event if it has ended at once. */
type SendToEnd = (native: NativeSandbox, id: number) => NativeEvent | undefined

type Failed = Extract<NativeEvent, { kind: 'error' }>

/** The last event of a call. */
export type Ended<T> = Failed | { kind: 'done'; value: T }

/** A call that was sent. */
export interface PendingCall {
  id: number
  native: NativeSandbox
}

export class Engine {
  readonly #config: SandboxConfig
  readonly #calls: CallTable
  /** The commands that the sessions have run. */
  readonly history: History
  #native: NativeSandbox | undefined
  #destroyed: Promise<void> | undefined
  readonly #destroyListeners = new Set<() => void>()
  #onRestored = () => {}
  /** Number of reasons to keep the event loop alive: pending calls and other waits. */
  #holds = 0

  constructor(
    config: SandboxConfig,
    logger: Logger | undefined,
    history = new History(),
    observer?: Observer,
  ) {
    this.#config = config
    this.history = history
    this.#calls = new CallTable(logger, observer)
  }

  /**
   * Sends a call and passes its last event to `listener`.
   *
   * The event loop is kept alive until then. Throws SANDBOX_DESTROYED. Throws ENGINE_ERROR if the addon refuses the call or
   * cannot start; no event follows then.
   */
  begin<T>(send: Send<T>, listener: (event: Ended<T>) => void): PendingCall {
    return this.#send(this.start(), pending(send), ended(listener), true)
  }

  /** Like `begin`, for a command: `listener` gets all its events. If it ends at once, it gets the last one before this returns. */
  run(send: SendToEnd, listener: (event: NativeEvent) => void): PendingCall {
    return this.#send(this.start(), send, listener, true)
  }

  /**
   * Like `begin`, but for an observer: it does not keep the event loop alive, and works while the sandbox is being
   * destroyed, so that the observer sees the end.
   */
  watch<T>(send: Send<T>, listener: (event: Ended<T>) => void): PendingCall {
    return this.#send(this.#native ?? this.start(), pending(send), ended(listener), false)
  }

  /**
   * Sends a call, and resolves with what it returns. An abort of a signal abandons it, if the call allows that. Rejects with
   * the engine's error.
   */
  call<T>(send: Send<T>, ...signals: (AbortSignal | undefined)[]): Promise<T> {
    return settled((listener) => this.begin(send, listener), signals)
  }

  /** Like `call`, but for an observer, see `watch`. With `isAwaited`, it keeps the event loop alive all the same. */
  async observe<T>(send: Send<T>, isAwaited: boolean, ...signals: (AbortSignal | undefined)[]): Promise<T> {
    let letEnd = () => {}
    const begin = (listener: (event: Ended<T>) => void) => {
      const call = this.watch(send, listener)
      if (isAwaited) letEnd = this.hold()
      return call
    }
    return settled(begin, signals).finally(() => letEnd())
  }

  /** Runs a query that the engine answers immediately; undefined if the engine has not started. Throws SANDBOX_DESTROYED. */
  ask<T>(query: (native: NativeSandbox) => T): T | undefined {
    if (this.#destroyed !== undefined) throw engineError('SANDBOX_DESTROYED', undefined)
    // What an earlier sandbox of the name has kept is there before any call.
    if (this.keeps) this.start()
    return this.#native && query(this.#native)
  }

  /** Closes something open; no effect once the sandbox is destroyed. */
  release(close: (native: NativeSandbox) => void): void {
    if (this.#native !== undefined) close(this.#native)
  }

  /** Keeps the event loop alive until the returned function is called. */
  hold(): () => void {
    const native = this.#native
    if (native === undefined) return () => {}
    if (this.#holds++ === 0) native.ref()
    let held = true
    return () => {
      if (held && --this.#holds === 0) native.unref()
      held = false
    }
  }

  /** Adds variables to the environment of every session. Returns false and does nothing if the engine has started. */
  extendEnv({ names, values }: { names: readonly string[]; values: readonly string[] }): boolean {
    if (this.#native !== undefined) return false
    const { envNames, envValues } = this.#config
    for (const [index, name] of names.entries()) {
      const at = envNames.indexOf(name)
      envNames[at < 0 ? envNames.length : at] = name
      envValues[at < 0 ? envValues.length : at] = values[index] ?? ''
    }
    return true
  }

  /** The environment that sessions start from. */
  env(): Record<string, string> {
    const { envNames, envValues } = this.#config
    return Object.fromEntries(envNames.map((name, index) => [name, envValues[index] ?? '']))
  }

  /** Calls `listener` when the sandbox is destroyed. Returns a function that removes it. */
  onDestroy(listener: () => void): () => void {
    this.#destroyListeners.add(listener)
    return () => this.#destroyListeners.delete(listener)
  }

  /** Whether the sandbox has a name under which it is kept. */
  get keeps(): boolean {
    return this.#config.keep !== undefined
  }

  /** Calls `listener` as soon as it has what an earlier sandbox of the same name has kept. */
  onRestored(listener: () => void): void {
    this.#onRestored = listener
  }

  get isDestroyed(): boolean {
    return this.#destroyed !== undefined
  }

  /** Ids of the engine's sessions. */
  sessions(): string[] {
    return this.ask((native) => native.sessions()) ?? []
  }

  /** Destroys the sandbox. Every call returns the same promise; does nothing if the engine never started. */
  destroy(): Promise<void> {
    if (this.#destroyed === undefined) {
      this.#destroyed = this.#destroy()
      for (const listener of this.#destroyListeners) listener()
    }
    return this.#destroyed
  }

  async #destroy(): Promise<void> {
    const native = this.#native
    if (native === undefined) return
    const event = await new Promise<NativeEvent>((resolve) => {
      this.#send(
        native,
        pending((handle, id) => handle.destroy(id)),
        resolve,
        true,
      )
    })
    this.#native = undefined
    if (event.kind === 'error') throw engineError(event.code, event.message)
  }

  #send(
    native: NativeSandbox,
    send: SendToEnd,
    listener: (event: NativeEvent) => void,
    isAwaited: boolean,
  ): PendingCall {
    let release: (() => void) | undefined
    const id = this.#calls.add((event) => {
      if (isLast(event)) release?.()
      listener(this.#destroyed === undefined ? event : ofTheEnd(event))
    })
    let ended: NativeEvent | undefined
    try {
      ended = send(native, id)
    } catch (cause) {
      this.#calls.remove(id)
      throw refused(cause)
    }
    // Events come in a later turn, unless the call has ended.
    if (ended !== undefined) this.#calls.dispatch(ended)
    else if (isAwaited) release = this.hold()
    return { id, native }
  }

  /** The handle, which is created if that has not been done. Throws like `begin`. */
  start(): NativeSandbox {
    if (this.#destroyed !== undefined) throw engineError('SANDBOX_DESTROYED', undefined)
    if (this.#native !== undefined) return this.#native
    const { addon, supervisor } = loadAddon()
    let native: NativeSandbox
    try {
      native = new addon.NativeSandbox({ ...this.#config, supervisor }, this.#calls.dispatch)
    } catch (cause) {
      throw refused(cause)
    }
    const failure = this.keeps ? native.goOn() : null
    if (failure !== null) throw engineError(failure.code, failure.message)
    this.#native = native
    if (this.keeps) this.#onRestored()
    return native
  }
}

/** A call whose only event is the last one. */
function pending(send: Send<unknown>): SendToEnd {
  return (native, id) => {
    const value: unknown = send(native, id) ?? undefined
    return value === undefined ? undefined : { kind: 'done', id, value }
  }
}

/** For a call that is no command: its only event is the last one, with the `T` of its `Pending<T>`. */
function ended<T>(listener: (event: Ended<T>) => void): (event: NativeEvent) => void {
  return listener as (event: NativeEvent) => void
}

/** Sends a call with `begin`, and resolves with what it returns. An abort of a signal abandons it. */
async function settled<T>(
  begin: (listener: (event: Ended<T>) => void) => PendingCall,
  signals: readonly (AbortSignal | undefined)[],
): Promise<T> {
  let releases: (() => void)[] = []
  const event = await new Promise<Ended<T>>((resolve) => {
    const { native, id } = begin(resolve)
    releases = signals.map((signal) => onAbort(signal, () => native.abandon(id)))
  })
  for (const release of releases) release()
  if (event.kind === 'error') throw failureOf(event)
  return event.value
}

/** The error of a failed call. */
function failureOf({ code, message, path, paths }: Failed): SandboxError | OptionError {
  if (code === 'INVALID_OPTION') return new OptionError(code, message)
  return engineError(code, message, { path, paths })
}

/** What a call reports if its session or process was taken away. */
const LOSSES = new Set(['SESSION_DESTROYED', 'SESSION_NOT_FOUND', 'PROCESS_NOT_FOUND'])

/** During `destroy`, callers see SANDBOX_DESTROYED instead of what it has taken away. */
function ofTheEnd(event: NativeEvent): NativeEvent {
  if (event.kind !== 'error' || !LOSSES.has(event.code)) return event
  return ownOnly({ ...event, code: 'SANDBOX_DESTROYED', message: meaningOf('SANDBOX_DESTROYED') })
}

function refused(cause: unknown): SandboxError {
  const message = cause instanceof Error ? cause.message : String(cause)
  return new SandboxError('ENGINE_ERROR', message, { cause })
}

/** Makes a call that an abort can end: it returns null after an abort in time. */
export async function abortable<T>(
  engine: Engine,
  subject: string,
  signal: AbortSignal | undefined,
  send: Send<T | null>,
): Promise<T> {
  refuseAborted(signal, subject)
  const value = await engine.call(send, signal)
  if (value === null && signal?.aborted) throw new AbortError(signal.reason, undefined, subject)
  return returned(value)
}

/** Makes a call that needs no living sandbox, by an engine of its own. */
export async function callApart<T>(config: SandboxConfig, send: Send<T>): Promise<T> {
  const engine = new Engine(config, undefined)
  try {
    return await engine.call(send)
  } finally {
    await engine.destroy()
  }
}

/** What a call returns that was not abandoned. */
export function returned<T>(value: T | null): T {
  if (value === null) throw engineError('ENGINE_ERROR', 'the engine returned no result')
  return value
}
