/**
 * One sandbox's connection to the addon: created at the first call, kept alive while calls are pending.
 */
import type { Logger } from '../index'
import type { NativeCapabilities, NativeEvent, NativeSandbox } from './boundary'
import { CallTable } from './calls'
import { engineError, SandboxError } from './errors'
import { loadAddon } from './native'
import type { SandboxConfig } from './options/sandbox'

/** Makes one call across the boundary under the id it is given. */
export type Send = (native: NativeSandbox, id: number) => void

/** A call that has been made. */
export interface PendingCall {
  id: number
  native: NativeSandbox
}

export class Engine {
  readonly #config: SandboxConfig
  readonly #calls: CallTable
  #native: NativeSandbox | undefined
  #destroyed: Promise<void> | undefined

  constructor(config: SandboxConfig, logger: Logger | undefined) {
    this.#config = config
    this.#calls = new CallTable(logger)
  }

  /**
   * Makes a call and passes its events to `listener`, the last of which is a result, done or error.
   *
   * The handle is referenced while at least one call is pending. Throws SANDBOX_DESTROYED, or ENGINE_ERROR when the
   * addon refuses the call or cannot start; then there will be no event.
   */
  begin(send: Send, listener: (event: NativeEvent) => void): PendingCall {
    if (this.#destroyed !== undefined) throw engineError('SANDBOX_DESTROYED', undefined)
    return this.#send(this.#handle(), send, listener)
  }

  /** Makes a call that ends with `done`. Rejects with the engine's error. */
  async call(send: Send): Promise<void> {
    const event = await new Promise<NativeEvent>((resolve) => {
      this.begin(send, resolve)
    })
    if (event.kind === 'error') throw engineError(event.code, event.message)
  }

  /** Ids of the sessions that the engine knows. */
  sessions(): string[] {
    if (this.#destroyed !== undefined) throw engineError('SANDBOX_DESTROYED', undefined)
    return this.#native?.sessions() ?? []
  }

  capabilities(): NativeCapabilities {
    if (this.#destroyed !== undefined) throw engineError('SANDBOX_DESTROYED', undefined)
    return this.#handle().capabilities()
  }

  /** Ends everything. The same promise for every caller; nothing to do when nothing was ever started. */
  destroy(): Promise<void> {
    this.#destroyed ??= this.#destroy()
    return this.#destroyed
  }

  /** Tells the user's logger about something that has no other way out. */
  warn(message: string): void {
    this.#calls.report('warn', message)
  }

  async #destroy(): Promise<void> {
    const native = this.#native
    if (native === undefined) return
    const event = await new Promise<NativeEvent>((resolve) => {
      this.#send(native, (handle, id) => handle.destroy(id), resolve)
    })
    this.#native = undefined
    if (event.kind === 'error') throw engineError(event.code, event.message)
  }

  #send(native: NativeSandbox, send: Send, listener: (event: NativeEvent) => void): PendingCall {
    const calls = this.#calls
    const id = calls.add((event) => {
      if (calls.size === 0) native.unref()
      listener(event)
    })
    if (calls.size === 1) native.ref()
    try {
      send(native, id)
    } catch (cause) {
      calls.remove(id)
      if (calls.size === 0) native.unref()
      throw refused(cause)
    }
    return { id, native }
  }

  #handle(): NativeSandbox {
    if (this.#native === undefined) {
      const { addon, supervisor } = loadAddon()
      try {
        this.#native = new addon.NativeSandbox({ ...this.#config, supervisor }, this.#calls.dispatch)
      } catch (cause) {
        throw refused(cause)
      }
    }
    return this.#native
  }
}

function refused(cause: unknown): SandboxError {
  const message = cause instanceof Error ? cause.message : String(cause)
  return new SandboxError('ENGINE_ERROR', message, { cause })
}
