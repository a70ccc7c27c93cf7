/** Bytes that arrive in pieces. */
export class Bytes {
  #all: Uint8Array<ArrayBuffer>
  length = 0

  /** `expected`: how many, if that is known. */
  constructor(expected: number) {
    this.#all = new Uint8Array(expected)
  }

  add(piece: Uint8Array): void {
    const length = this.length + piece.length
    if (length > this.#all.length) {
      const larger = new Uint8Array(Math.max(length, 2 * this.#all.length))
      larger.set(this.#all)
      this.#all = larger
    }
    this.#all.set(piece, this.length)
    this.length = length
  }

  whole(): Uint8Array {
    return this.length === this.#all.length ? this.#all : this.#all.slice(0, this.length)
  }
}
