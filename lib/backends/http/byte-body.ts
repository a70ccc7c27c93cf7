/** The body of a response, in pieces. */
export class ByteBody {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  readonly #explain: (error: unknown) => unknown
  #release: (() => void) | undefined

  /** `explain` makes the error of what the runtime throws; `release` ends the request. */
  constructor(
    body: ReadableStream<Uint8Array> | null,
    explain: (error: unknown) => unknown,
    release: () => void,
  ) {
    this.#reader = body?.getReader()
    this.#explain = explain
    this.#release = release
  }

  /** The next piece; undefined at the end. */
  async read(): Promise<Uint8Array | undefined> {
    try {
      const { value } = (await this.#reader?.read()) ?? {}
      if (value === undefined) this.close()
      return value
    } catch (error) {
      const explained = this.#explain(error)
      this.close()
      throw explained
    }
  }

  /** Ends the request. */
  close(): void {
    const release = this.#release
    this.#release = undefined
    if (release === undefined) return
    this.#reader?.cancel().catch(() => {})
    release()
  }
}
