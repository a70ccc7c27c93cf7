/**
 * Joins the text of one stream into lines.
 */
import { withoutReturn } from '../../../run/lines.js'

/** A line of more characters is returned in parts, which bounds memory and time. */
const LONGEST_LINE = 1024 * 1024
/** Characters of a part that are repeated in the next one, for a match across the cut. */
const OVERLAP = 64 * 1024

export class LineAssembler {
  #rest = ''

  /** The lines that are complete with this, without their ends. */
  write(text: string): string[] {
    const lines = text.split('\n')
    lines[0] = this.#rest + lines[0]
    this.#rest = lines.pop() ?? ''
    if (this.#rest.length > LONGEST_LINE) {
      lines.push(this.#rest)
      this.#rest = this.#rest.slice(-OVERLAP)
    }
    return lines.map(withoutReturn)
  }

  /** The incomplete line at the end. */
  get rest(): string {
    return withoutReturn(this.#rest)
  }
}
