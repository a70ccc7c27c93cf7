/**
 * The background commands of a session, by the ids that the container gives them.
 *
 * An id is known from the request until the process has ended, whether or not its output has been read. It is only the key
 * of a map. The engine has its own ids, so no id can lead to a file or to another session's process.
 */
import type { LocalProcess } from '../backends/native/processes/process.js'
import { OptionError } from '../base/errors.js'
import { AS_STARTED } from '../run/start-process.js'

export class Commands {
  readonly #running = new Map<string, Promise<LocalProcess>>()

  /**
   * Starts a process under an id. Throws if the id is taken.
   *
   * The id is reserved in the same turn as the lookup, so two concurrent starts cannot both take it.
   */
  start(commandId: string, start: () => Promise<LocalProcess>): Promise<LocalProcess> {
    if (this.#running.has(commandId))
      throw new OptionError('INVALID_ID', `commandId '${commandId}' belongs to a running command`)
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
   * Kills the whole tree: SIGTERM, after 5 s SIGKILL. False if the id is unknown or its command has ended. With `wait`,
   * resolves once all of the tree has exited; otherwise, once the kill has started.
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

  /** Resolves once all commands have ended. */
  async ended(): Promise<void> {
    const all = Array.from(this.#running.values(), async (starting) => (await starting).handle.wait())
    await Promise.allSettled(all)
  }
}
