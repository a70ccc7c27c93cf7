/**
 * Puts the text of one stream together into lines.
 */
import { withoutReturn } from '../../../run/lines.js'

/** A line longer than this many characters is given in parts, so that neither memory nor time grows with it. */
const LONGEST_LINE = 1024 * 1024
/** So much of a part is given again at the beginning of the next, for what was cut. */
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

  /** What has come of a line that is not complete. */
  get rest(): string {
    return withoutReturn(this.#rest)
  }
}
