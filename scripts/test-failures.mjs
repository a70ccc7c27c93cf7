import { stripVTControlCharacters } from 'node:util'

/**
 * The lines about failures: after ` FAIL ` in vitest's output, before `(fail)` in Bun's. Limited in number: a failure in
 * every test would fill the log twice.
 */
export class Failures {
  static #MOST = 200
  static #CONTEXT = 30
  lines = []
  #before = []
  #after = 0

  read(line) {
    const plain = stripVTControlCharacters(line)
    this.#before.push(line)
    if (this.#before.length > Failures.#CONTEXT) this.#before.shift()
    if (plain.startsWith(' FAIL ')) this.#after = Failures.#CONTEXT
    if (plain.startsWith('(fail)') || this.#after > 0) {
      const room = Failures.#MOST - this.lines.length
      this.lines.push(...this.#before.slice(0, room))
      this.#before = []
      this.#after--
    }
  }
}
