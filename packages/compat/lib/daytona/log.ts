/** The output of the commands of a sandbox, in memory. */

/** Of all commands of a sandbox together. The oldest output is dropped. */
const MOST_BYTES = 64 * 1024 * 1024
/** Memory that a piece needs beside its data. */
const PIECE_BYTES = 200
/** Output of one stream is kept together up to this size. */
const MOST_MERGED_BYTES = 64 * 1024
/** Of a character in UTF-8. */
const MOST_CONTINUATION_BYTES = 3

type StreamName = 'stdout' | 'stderr'

export interface Output {
  stream: StreamName
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

/** Output that arrived in one stream without any of the other one between. */
class Piece {
  readonly stream: StreamName
  #bytes: Buffer
  #length: number

  constructor(stream: StreamName, data: Buffer) {
    this.stream = stream
    this.#bytes = data
    this.#length = data.length
  }

  get data(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  /** Bytes of memory. */
  get size(): number {
    return this.#bytes.length + PIECE_BYTES
  }

  /** False if it does not belong here. What `data` returned before stays as it is. */
  append(stream: StreamName, data: Buffer): boolean {
    const length = this.#length + data.length
    if (stream !== this.stream || length > MOST_MERGED_BYTES) return false
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.min(2 * length, MOST_MERGED_BYTES))
      this.data.copy(larger)
      this.#bytes = larger
    }
    data.copy(this.#bytes, this.#length)
    this.#length = length
    return true
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

  /** The number of pieces. */
  get length(): number {
    return this.#pieces.size
  }

  add(stream: StreamName, data: Buffer): void {
    if (data.length === 0) return
    const next = this.#dropped + this.length
    const last = this.#pieces.get(next - 1)
    const before = last?.size ?? 0
    if (last?.append(stream, data)) this.#count(last.size - before)
    else {
      const piece = new Piece(stream, data)
      this.#pieces.set(next, piece)
      this.#count(piece.size)
    }
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
    return piece.size
  }

  clear(): number {
    let bytes = 0
    while (this.length > 0) bytes += this.drop()
    return bytes
  }

  /** The newest output so far, of at most so many bytes. It begins with a whole character. */
  newest(most: number): Output[] {
    const outputs: Output[] = []
    let rest = most
    let at = this.#dropped + this.length
    while (at > this.#dropped && rest > 0) {
      const { stream, data } = this.#pieces.get(--at) as Piece
      outputs.push({ stream, data: data.subarray(Math.max(0, data.length - rest)) })
      rest -= data.length
    }
    const oldest = outputs.at(-1)
    if (oldest !== undefined && (at > 0 || rest < 0)) oldest.data = fromCharacter(oldest.data)
    return outputs.reverse()
  }

  /** Yields what is there, and with `isFollowed` what comes until the end or the signal. */
  async *read(isFollowed: boolean, signal: AbortSignal): AsyncGenerator<Output> {
    let at = this.#dropped
    /** Bytes of the piece that were read. */
    let read = 0
    for (;;) {
      if (at < this.#dropped) [at, read] = [this.#dropped, 0]
      const piece = this.#pieces.get(at)
      if (piece !== undefined && read < piece.data.length) {
        const data = piece.data.subarray(read)
        read += data.length
        yield { stream: piece.stream, data }
      } else if (this.#pieces.has(at + 1)) [at, read] = [at + 1, 0]
      else if (this.#isOver || !isFollowed || signal.aborted) return
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

/** Without the rest of a character that was cut at the beginning. */
function fromCharacter(data: Buffer): Buffer {
  let start = 0
  while (start < MOST_CONTINUATION_BYTES && ((data[start] ?? 0) & 0xc0) === 0x80) start++
  return data.subarray(start)
}
