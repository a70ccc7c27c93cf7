/** The output of the commands of a sandbox, in memory. */

/** Of all commands of a sandbox together. The oldest output is dropped. */
const MOST_BYTES = 64 * 1024 * 1024
/** Memory that a piece needs beside its data. */
const PIECE_BYTES = 200

export interface Piece {
  stream: 'stdout' | 'stderr'
  data: Buffer
}

/** All logs of a sandbox, the oldest first. */
export class Logs {
  readonly #all = new Set<Log>()
  #bytes = 0

  open(): Log {
    const log = new Log((bytes) => this.#count(bytes))
    this.#all.add(log)
    return log
  }

  forget(log: Log): void {
    this.#all.delete(log)
    this.#bytes -= log.clear()
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    for (const log of this.#all) while (this.#bytes > MOST_BYTES && log.length > 0) this.#bytes -= log.drop()
  }
}

export class Log {
  /** By their numbers, the oldest first. */
  readonly #pieces = new Map<number, Piece>()
  /** Pieces that were dropped: the number of the oldest that is kept. */
  #dropped = 0
  #isOver = false
  readonly #waiting = new Set<() => void>()
  readonly #count: (bytes: number) => void

  constructor(count: (bytes: number) => void) {
    this.#count = count
  }

  get length(): number {
    return this.#pieces.size
  }

  add(stream: Piece['stream'], data: Buffer): void {
    if (data.length === 0) return
    const piece = { stream, data }
    this.#pieces.set(this.#dropped + this.length, piece)
    this.#count(sizeOf(piece))
    this.#notify()
  }

  /** No more follows. */
  end(): void {
    this.#isOver = true
    this.#notify()
  }

  /** Drops the oldest piece. Returns the bytes of memory that it needed. */
  drop(): number {
    const piece = this.#pieces.get(this.#dropped)
    if (piece === undefined) return 0
    this.#pieces.delete(this.#dropped)
    this.#dropped += 1
    return sizeOf(piece)
  }

  clear(): number {
    let bytes = 0
    while (this.length > 0) bytes += this.drop()
    return bytes
  }

  /** All so far, or of one stream. */
  text(stream?: Piece['stream']): string {
    const pieces = [...this.#pieces.values()].filter(
      (piece) => stream === undefined || piece.stream === stream,
    )
    return Buffer.concat(pieces.map(({ data }) => data)).toString('utf8')
  }

  /** Yields what is there, and with `isFollowed` what comes until the end or the signal. */
  async *read(isFollowed: boolean, signal: AbortSignal): AsyncGenerator<Piece> {
    let at = this.#dropped
    for (;;) {
      at = Math.max(at, this.#dropped)
      const piece = this.#pieces.get(at)
      if (piece !== undefined) {
        at += 1
        yield piece
      } else if (this.#isOver || !isFollowed || signal.aborted) return
      else await this.#more(signal)
    }
  }

  #more(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        signal.removeEventListener('abort', done)
        this.#waiting.delete(done)
        resolve()
      }
      signal.addEventListener('abort', done)
      this.#waiting.add(done)
    })
  }

  #notify(): void {
    for (const wake of this.#waiting) wake()
  }
}

function sizeOf({ data }: Piece): number {
  return data.length + PIECE_BYTES
}
