/** The public object of a hold. */

import { holdNote } from '../calls/hold.js'
import type * as api from '../calls/index.js'
import { readArgument } from '../schema/read.js'
import type { HoldBackend } from './backend.js'

export class Hold<Held extends api.AnySession | api.Process> implements api.Hold<Held> {
  readonly owner: string
  readonly held: Held
  readonly #backend: HoldBackend

  /** `held`: the session or the process with the id of the hold. */
  constructor(owner: string, backend: HoldBackend, held: Held) {
    this.owner = owner
    this.held = held
    this.#backend = backend
  }

  get ended(): Promise<void> {
    return this.#backend.ended
  }

  async release(note?: string): Promise<void> {
    await this.#backend.release(note === undefined ? undefined : readArgument(holdNote.read, note, 'note'))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }
}
