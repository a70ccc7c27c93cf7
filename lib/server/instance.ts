/**
 * Names processes for ever: after a process was forgotten, its id can belong to another one.
 */
import { crypto } from '../base/builtin.js'
import type { Process } from '../public/index.js'

const instances = new WeakMap<Process, string>()

/** What no other process has, not even on another server. A service keeps it when it restarts. */
export function instanceOf(process: Process): string {
  const instance = instances.get(process) ?? crypto().randomUUID().slice(0, 8)
  instances.set(process, instance)
  return instance
}
