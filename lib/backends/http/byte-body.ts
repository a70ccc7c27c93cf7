/** The body of a response, in pieces. */
import { onAbort } from '../../base/abort.js'

export class ByteBody {
  /** The length that the server announces; 0 when it does not. */
  readonly announced: number
  /** The version of the file, if the server names it. */
  readonly version: string | undefined
  /** Whether it is a range of the file. */
  readonly isPartial: boolean
  /** Its first byte in the file; NaN for a range that does not say. */
  readonly first: number
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  readonly #explain: (error: unknown) => Promise<unknown>
  readonly #signal: AbortSignal
  readonly #ignore: () => void
  #release: (() => void) | undefined

  /**
   * `signal` cancels the body: Node forgets to, once the request has been collected as garbage. `explain` makes the error of
   * what the runtime throws; `release` ends the request.
   */
  constructor(
    { status, headers, body }: Response,
    signal: AbortSignal,
    explain: (error: unknown) => Promise<unknown>,
    release: () => void,
  ) {
    this.announced = Math.max(0, Number(headers.get('content-length')) || 0)
    this.version = headers.get('etag') ?? undefined
    this.isPartial = status === 206
    const [, first] = /^bytes (\d{1,15})-/i.exec(headers.get('content-range') ?? '') ?? []
    this.first = this.isPartial ? Number(first ?? Number.NaN) : 0
    // A range beyond the end of the file is empty, and its body says so.
    this.#reader = status === 416 ? undefined : body?.getReader()
    this.#signal = signal
    this.#ignore = onAbort(signal, () => void this.#reader?.cancel().catch(() => {}))
    this.#explain = explain
    this.#release = release
  }

  /** The next piece; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      const { value } = (await this.#reader?.read()) ?? {}
      if (this.#signal.aborted && this.#release !== undefined) throw this.#signal.reason
      if (value === undefined) this.close()
      return value
    } catch (error) {
      const explained = await this.#explain(error).catch((cause: unknown) => cause)
      this.close()
      throw explained
    }
  }

  /** Ends the request. */
  close(): void {
    const release = this.#release
    this.#release = undefined
    if (release === undefined) return
    this.#ignore()
    this.#reader?.cancel().catch(() => {})
    release()
  }
}
