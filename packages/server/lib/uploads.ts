/**
 * Uploads in parts, which survive their connections.
 *
 * A proxy may cut a long request, and connections break. So a client can send a file in parts, each in a request of its own,
 * by their offsets. A part that has arrived already is acknowledged again, and not written again. The file replaces the old
 * one at the end of the upload.
 */

import type { FileInfo } from 'nacre'
import { clock, crypto, OptionError } from 'nacre/internal'
import { Refusal } from './failure.js'
import { InTurn } from './in-turn.js'
import { InputQueue } from './input-queue.js'

const MOST_UPLOADS = 1000

/** Writes a file from a source. */
export type Write = (source: AsyncIterable<Uint8Array | string>, signal: AbortSignal) => Promise<FileInfo>

export class Uploads {
  readonly #uploads = new Map<string, Upload>()
  readonly #closing: AbortSignal

  /** `closing` is aborted when the server ends. */
  constructor(closing: AbortSignal) {
    this.#closing = closing
  }

  /** Begins an upload, which ends after `keep` milliseconds without a request. Returns its id. */
  begin(keep: number, write: Write): string {
    if (this.#uploads.size >= MOST_UPLOADS)
      throw new Refusal('OVERLOADED', `the server has ${MOST_UPLOADS} uploads already; try again`)
    const id = crypto().randomUUID()
    this.#uploads.set(id, new Upload(keep, write, this.#closing, () => this.#uploads.delete(id)))
    return id
  }

  /** Resolves when the part is being written. Rejects with UPLOAD_NOT_FOUND, and with the error of the write. */
  part(id: string, offset: number, data: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#find(id).part(offset, data, signal)
  }

  /** Resolves with the file when all of it has been written. */
  async end(id: string): Promise<FileInfo> {
    return this.#find(id).end()
  }

  /** Ends an upload without its file. */
  cancel(id: string): void {
    this.#find(id).cancel('the upload was cancelled')
  }

  #find(id: string): Upload {
    const upload = this.#uploads.get(id)
    if (upload === undefined)
      throw new Refusal('UPLOAD_NOT_FOUND', 'there is no such upload, or it has ended')
    return upload
  }
}

class Upload {
  readonly #queue = new InputQueue()
  readonly #abort = new AbortController()
  readonly #keep: number
  readonly #forget: () => void
  readonly #file: Promise<FileInfo>
  #received = 0
  /** One part at a time: a repeated one may arrive while its first request waits for the disk. */
  readonly #turns = new InTurn()
  #requests = 0
  #timer: NodeJS.Timeout | undefined

  constructor(keep: number, write: Write, closing: AbortSignal, forget: () => void) {
    this.#keep = keep
    this.#forget = forget
    this.#file = write(this.#queue, AbortSignal.any([this.#abort.signal, closing]))
    this.#file.catch(() => {})
    this.#wait()
  }

  /** A part whose request is aborted before its turn is dropped. */
  part(offset: number, data: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#during(this.#turns.take(() => this.#take(offset, data), signal))
  }

  end(): Promise<FileInfo> {
    const written = this.#turns.idle.then(() => {
      this.#queue.end()
      return this.#file
    })
    return this.#during(written).finally(() => this.cancel('the upload is over'))
  }

  cancel(reason: string): void {
    this.#forget()
    clock.clearTimeout(this.#timer)
    this.#abort.abort(new Error(reason))
  }

  async #take(offset: number, data: Uint8Array): Promise<void> {
    if (offset + data.length <= this.#received) return
    if (offset !== this.#received)
      throw new OptionError(
        'INVALID_OPTION',
        `offset: is ${offset}, and the next part begins at ${this.#received}`,
      )
    this.#received += data.length
    await Promise.race([this.#queue.push(data), this.#file])
    // A write that fails takes no more parts: they count as taken.
    await Promise.race([this.#file, Promise.resolve()])
  }

  /** The time without a request begins when none is pending. */
  async #during<T>(work: Promise<T>): Promise<T> {
    this.#requests++
    clock.clearTimeout(this.#timer)
    try {
      return await work
    } finally {
      if (--this.#requests === 0) this.#wait()
    }
  }

  #wait(): void {
    if (this.#abort.signal.aborted) return
    this.#timer = clock.setTimeout(() => this.cancel('no part of the upload has arrived in time'), this.#keep)
    this.#timer.unref()
  }
}
