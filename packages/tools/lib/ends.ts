/** Collects output of any length, of which only the start and the end are kept. */
import type { Excerpt } from './shorten.js'

/** Characters of each end: far more than a reply shows, because progress bars leave little of them. */
export const END_LENGTH = 64 * 1024

export class Ends {
  #head = ''
  #tail = ''
  #missing = 0

  /** `missing` is what is missing just before the text. */
  add(text: string, missing = 0): void {
    this.#missing += missing
    if (this.#missing === 0 && this.#tail === '') {
      const room = END_LENGTH - this.#head.length
      this.#head += text.slice(0, room)
      text = text.slice(room)
    }
    this.#tail += text
    // Only now and then, because each time copies the text.
    if (this.#tail.length > 2 * END_LENGTH) this.#shrink()
  }

  get excerpt(): Excerpt {
    if (this.#tail.length > END_LENGTH) this.#shrink()
    if (this.#missing === 0) return { head: this.#head + this.#tail, tail: '', missing: 0 }
    return { head: this.#head, tail: this.#tail, missing: this.#missing }
  }

  #shrink(): void {
    this.#missing += this.#tail.length - END_LENGTH
    this.#tail = this.#tail.slice(-END_LENGTH)
  }
}
