/**
 * A download that survives broken connections, for clients whose calls do: it continues where it was, if the file is still
 * the same.
 */
import type { ByteBody } from './byte-body.js'
import type { Connection } from './connection.js'
import { connectionError } from './failure.js'
import { Reconnection } from './reconnection.js'
import { isTransient } from './repeat.js'
import type { Request } from './request.js'

export class Download {
  readonly #connection: Connection
  readonly #request: Request
  /** The version of the file that is downloaded; undefined where the server names none. */
  readonly #version: string | undefined
  /** Bytes that the server has announced; 0 when it has not. */
  readonly announced: number
  readonly #stop = new AbortController()
  /** Since the last bytes; undefined while the connection holds. */
  #reconnection: Reconnection | undefined
  #body: ByteBody
  /** Where the reply begins in the file. */
  readonly #start: number
  /** The bytes that were asked for: a server or a proxy may send the whole file instead. */
  readonly #wanted: { start: number; end: number }
  #received = 0

  private constructor(
    connection: Connection,
    request: Request,
    wanted: { start: number; end: number },
    body: ByteBody,
  ) {
    this.#connection = connection
    this.#request = request
    this.#wanted = wanted
    this.#start = body.first
    this.#body = body
    this.#version = body.version
    this.announced = body.announced
  }

  /** Resolves when the server has begun to answer. `end` is the first byte that is not read. Default: the whole file. */
  static async begin(
    connection: Connection,
    request: Request,
    wanted = { start: 0, end: Number.POSITIVE_INFINITY },
  ): Promise<Download> {
    const { start } = wanted
    const last = lastOf(wanted)
    const headers = start === 0 && last === '' ? undefined : { range: `bytes=${start}-${last}` }
    const body = await connection.bytes({ ...request, ...(headers && { headers }) })
    if (body.isPartial && body.first !== start) {
      body.close()
      throw connectionError(`${request.path} was answered with another range of bytes than the one asked for`)
    }
    return new Download(connection, request, wanted, body)
  }

  /** The next piece; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (this.#stop.signal.aborted) {
        // It may have come after the download was closed.
        this.#body.close()
        return undefined
      }
      try {
        const piece = await this.#body.read()
        if (piece === undefined) {
          if (this.#received >= this.announced) return undefined
          throw connectionError('the download ended early')
        }
        const position = this.#start + this.#received
        this.#received += piece.length
        this.#reconnection = undefined
        const { start, end } = this.#wanted
        const part = piece.subarray(Math.max(0, start - position), Math.max(0, end - position))
        if (position + piece.length >= end) {
          this.close()
          return part.length > 0 ? part : undefined
        }
        if (part.length > 0) return part
      } catch (error) {
        if (!this.#connection.resumes || this.#version === undefined || !isTransient(error)) throw error
        this.#reconnection ??= new Reconnection(this.#connection)
        await this.#reconnection.wait(error, this.#stop.signal)
        if (this.#stop.signal.aborted) return undefined
        this.#body = await this.#continue()
      }
    }
  }

  close(): void {
    this.#stop.abort()
    this.#body.close()
  }

  /** Requests the rest. */
  async #continue(): Promise<ByteBody> {
    const range = `bytes=${this.#start + this.#received}-${lastOf(this.#wanted)}`
    const headers = { range, 'if-range': this.#version ?? '' }
    const body = await this.#connection.bytes({ ...this.#request, headers })
    const isNext = body.isPartial && body.first === this.#start + this.#received
    if (isNext && body.version === this.#version) return body
    body.close()
    throw connectionError('the connection broke, and the file has changed since the download began')
  }
}

function lastOf({ end }: { end: number }): number | '' {
  return end === Number.POSITIVE_INFINITY ? '' : end - 1
}
