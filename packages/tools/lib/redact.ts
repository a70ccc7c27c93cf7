/** Hides values that replies must not show. It is help, not a guarantee: `base64` defeats it. */

const REPLACEMENT = '[redacted]'
/** A shorter part of a value would match too much. */
const SHORTEST_PART = 4
/** Lines of a value with several lines are hidden one by one, too: some replies show single lines. */
const SHORTEST_LINE = 8

/** Which ends of a text may be in the middle of a value. */
export interface Cuts {
  start: boolean
  end: boolean
}

export class Redactor {
  /** The longest first, since one may contain another. */
  readonly #values: string[]
  readonly #patterns: RegExp[]

  constructor(redact: readonly (string | RegExp)[]) {
    const values = redact.filter((item) => typeof item === 'string')
    const lines = values.flatMap((value) => value.split('\n').filter((line) => line.length >= SHORTEST_LINE))
    this.#values = [...new Set([...values, ...lines])].sort((left, right) => right.length - left.length)
    this.#patterns = redact
      .filter((item) => typeof item !== 'string')
      .map(({ source, flags }) => new RegExp(source, `${flags.replace(/[gy]/g, '')}g`))
  }

  hide(text: string, { start, end }: Cuts = { start: false, end: false }): string {
    for (const value of this.#values) text = text.replaceAll(value, REPLACEMENT)
    for (const pattern of this.#patterns) text = text.replace(pattern, REPLACEMENT)
    if (start) text = this.#hideStart(text)
    return end ? this.#hideEnd(text) : text
  }

  #hideStart(text: string): string {
    const part = this.#longestPart((value, length) => text.startsWith(value.slice(-length)))
    return part === 0 ? text : REPLACEMENT + text.slice(part)
  }

  #hideEnd(text: string): string {
    const part = this.#longestPart((value, length) => text.endsWith(value.slice(0, length)))
    return part === 0 ? text : text.slice(0, -part) + REPLACEMENT
  }

  #longestPart(isThere: (value: string, length: number) => boolean): number {
    let longest = 0
    for (const value of this.#values) {
      for (let length = value.length - 1; length >= Math.max(SHORTEST_PART, longest + 1); length--) {
        if (isThere(value, length)) longest = length
      }
    }
    return longest
  }
}
