/**
 * Requests and replies as frames on a socket, as crates/egress/src/function.rs has them: a length of 4 bytes, the lowest first, and as
 * many bytes. First the head, as JSON, then the body, which an empty frame ends.
 */
import type { Duplex } from 'node:stream'
import { buffer } from '../../base/builtin.js'

const { Buffer } = buffer
type Bytes = Buffer<ArrayBufferLike>

const LENGTH = 4
const PIECE = 64 * 1024
/** What is read ahead of a body: so much may come before the end of the other side is noticed. */
const AHEAD = 1024 * 1024

/** Reads and writes the frames of one socket. */
export class Frames {
  readonly #connection: Duplex
  readonly #pieces: AsyncIterator<Bytes>
  #rest: Bytes = Buffer.alloc(0)

  constructor(connection: Duplex) {
    this.#connection = connection
    this.#pieces = connection[Symbol.asyncIterator]()
  }

  /** The next frame; undefined for an empty one. Rejects at the end of the socket. */
  async read(): Promise<Bytes | undefined> {
    const length = (await this.#take(LENGTH)).readUInt32LE()
    return length === 0 ? undefined : this.#take(length)
  }

  async head(): Promise<unknown> {
    return JSON.parse(String((await this.read()) ?? 'null'))
  }

  /** The frames until an empty one. `ended` is called behind it, `failed` when the socket ends before. */
  body(ended: () => void, failed: () => void): ReadableStream<Uint8Array> {
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const frame = await this.read()
            if (frame !== undefined) return controller.enqueue(new Uint8Array(frame))
            controller.close()
            ended()
          } catch (error) {
            controller.error(error)
            failed()
          }
        },
        cancel: () => this.close(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: AHEAD }),
    )
  }

  async write(content: Uint8Array): Promise<void> {
    for (let at = 0; at < content.length; at += PIECE) {
      const piece = content.subarray(at, at + PIECE)
      await this.#send(frame(piece))
    }
  }

  /** Writes a head, and a body to its end. */
  async writeAll(head: object, body: ReadableStream<Uint8Array> | null): Promise<void> {
    await this.#send(frame(Buffer.from(JSON.stringify(head))))
    if (body !== null) for await (const piece of body) await this.write(piece)
    await this.#send(Buffer.alloc(LENGTH))
  }

  close(): void {
    this.#connection.destroy()
  }

  async #take(count: number): Promise<Bytes> {
    const pieces = [this.#rest]
    let length = this.#rest.length
    while (length < count) {
      const { value, done } = await this.#pieces.next()
      if (done) throw new Error('the other side has ended')
      pieces.push(value)
      length += value.length
    }
    const all = pieces.length === 1 ? this.#rest : Buffer.concat(pieces)
    this.#rest = all.subarray(count)
    return all.subarray(0, count)
  }

  #send(bytes: Bytes): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#connection.write(bytes, (error) => (error ? reject(error) : resolve()))
    })
  }
}

function frame(content: Uint8Array): Bytes {
  const length = Buffer.alloc(LENGTH)
  length.writeUInt32LE(content.length)
  return Buffer.concat([length, content])
}
