/**
 * The holds of clients. Each lasts as long as the stream that reports it: with a connection, or with a call that survives its
 * connections.
 */
import { aborts, engineError } from 'nacre/internal'
import { type backends, tables } from 'nacre/internal/server'
import { EventStream } from './sse.js'
import { encodeReply } from './wire.js'

export class Holds {
  /** By id. */
  readonly #holds = new Map<string, backends.HoldBackend>()

  /** The events of a hold that has begun. `signal` ends it. */
  events(hold: backends.HoldBackend, signal: AbortSignal): EventStream {
    const { id } = hold
    this.#holds.set(id, hold)
    const release = () => void hold.release().catch(() => {})
    const ignore = aborts.onAbort(signal, release)
    if (signal.aborted) release()
    void hold.ended.then(() => {
      ignore()
      this.#holds.delete(id)
    })
    const types = ['held', 'complete'] as const
    let sent = 0
    return new EventStream({
      async next() {
        const type = types[sent++]
        if (type === undefined) return { done: true, value: undefined }
        if (type === 'complete') await hold.ended
        return { done: false, value: [{ data: encodeReply(tables.holdEvent, { type, hold: id }) as object }] }
      },
      async return() {
        release()
        return { done: true, value: undefined }
      },
    })
  }

  /** Resolves when a hold has ended; at once if it had. Rejects with HELD without an id. */
  async release(id: string | undefined, note: string | undefined): Promise<void> {
    if (id === undefined)
      throw engineError('HELD', 'only the owner can end a hold: send the header X-Nacre-Hold')
    await this.#holds.get(id)?.release(note)
  }
}
