/**
 * The running programs by the numbers that clients know them by. These are not pids, so no other process can be reached.
 */
import type { LocalProcess } from 'nacre/internal/server'
import { Refused } from './status.js'

const MAX_ID = 0x7fff_ffff

export class ProcessTable {
  readonly #processes = new Map<number, LocalProcess>()
  #last = 0

  add(process: LocalProcess): number {
    do {
      this.#last = this.#last === MAX_ID ? 1 : this.#last + 1
    } while (this.#processes.has(this.#last))
    this.#processes.set(this.#last, process)
    return this.#last
  }

  remove(id: number): void {
    this.#processes.delete(id)
  }

  /** A running program. Throws NOT_FOUND. */
  get(id: number): LocalProcess {
    const process = this.#processes.get(id)
    if (process?.info.status === 'running') return process
    throw new Refused('NOT_FOUND', `there is no running process ${id}`)
  }
}
