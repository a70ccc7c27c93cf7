/**
 * The running programs by the numbers that clients know them by. These are not pids, so no other process can be reached.
 */
import type { HeldProcess } from '../../backends/native/held.js'
import { Refused } from './status.js'

const MAX_ID = 0x7fff_ffff

export class ProcessTable {
  readonly #processes = new Map<number, HeldProcess>()
  #last = 0

  add(held: HeldProcess): number {
    do {
      this.#last = this.#last === MAX_ID ? 1 : this.#last + 1
    } while (this.#processes.has(this.#last))
    this.#processes.set(this.#last, held)
    return this.#last
  }

  remove(id: number): void {
    this.#processes.delete(id)
  }

  /** A running program. Throws NOT_FOUND. */
  get(id: number): HeldProcess {
    const held = this.#processes.get(id)
    if (held !== undefined && held.process.status === 'running') return held
    throw new Refused('NOT_FOUND', `there is no running process ${id}`)
  }
}
