/**
 * The commands of a session that run in the background, by the ids that the container gives them.
 *
 * An id is known from the moment it is asked for until the process has ended, whether its output has been read or not.
 * It is a key of a map and nothing else: the engine has ids of its own, so no id can lead to a file, or to another
 * session's process.
 */
import type { LocalProcess } from '../backends/native/processes/process.js'
import { AS_STARTED } from '../run/start-process.js'
import { duplicateCommand } from './errors.js'

export class Commands {
  readonly #running = new Map<string, Promise<LocalProcess>>()

  /**
   * Starts a process under an id. Throws when the id is taken.
   *
   * The id is taken in the same turn in which it is looked up, so two concurrent starts cannot both have it.
   */
  start(commandId: string, start: () => Promise<LocalProcess>): Promise<LocalProcess> {
    if (this.#running.has(commandId)) throw duplicateCommand(commandId)
    const starting = start()
    this.#running.set(commandId, starting)
    const forget = () => this.#running.delete(commandId)
    starting.then((process) => process.handle.ended.then(forget), forget)
    return starting
  }

  ids(): string[] {
    return [...this.#running.keys()]
  }

  /**
   * Ends the whole tree: SIGTERM, after 5 s SIGKILL. False for an id that is unknown, or whose command has ended. With
   * `wait` it resolves when nothing of it is left, otherwise as soon as it is under way.
   */
  async kill(commandId: string, wait: boolean): Promise<boolean> {
    const starting = this.#running.get(commandId)
    if (starting === undefined) return false
    const killing = starting.then(
      (process) => process.kill(AS_STARTED),
      () => false,
    )
    if (wait) return killing
    killing.catch(() => {})
    return true
  }
}
