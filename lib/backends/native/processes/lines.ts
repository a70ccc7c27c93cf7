/**
 * Joins the text of one stream into lines.
 */
import { withoutReturn } from '../../../run/lines.js'

/** Maximum characters per line. A longer line is returned in parts, which bounds memory and time. */
const LONGEST_LINE = 1024 * 1024
/** Characters of a part that the next part repeats, for a match across the cut. */
const OVERLAP = 64 * 1024

export class LineAssembler {
  #rest = ''

  /** Adds text and returns the lines that are now complete, without their line ends. */
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
