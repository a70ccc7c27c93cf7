/** The body of a response, in pieces. */
import { onAbort } from '../../base/abort.js'

export class ByteBody {
  /** The length that the server announces; 0 when it does not. */
  readonly announced: number
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
    body: ReadableStream<Uint8Array> | null,
    announced: number,
    signal: AbortSignal,
    explain: (error: unknown) => Promise<unknown>,
    release: () => void,
  ) {
    this.announced = announced
    this.#reader = body?.getReader()
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
