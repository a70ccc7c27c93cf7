/** Limits of processes. */

import { mapped, object } from '../schema/constructors.js'
import { type Kind, table } from '../schema/kind.js'
import { count, processors } from '../schema/numbers.js'

/** Limits of a process and its descendants. A limit that this machine cannot enforce rejects with LIMIT_UNSUPPORTED. */
export interface Limits {
  /**
   * Maximum bytes of memory, 1 to Number.MAX_SAFE_INTEGER. Beyond it, the process is killed with the reason 'oom'.
   * Default: no limit.
   */
  memory?: number
  /** Maximum number of processors, more than 0; 0.5 is half of one. Default: no limit. */
  cpus?: number
  /** Maximum number of processes and threads, 1 to 4294967295. Default: no limit. */
  pids?: number
  /** Maximum number of open file descriptors per process, 1 to 4294967295. Default: no limit. */
  openFiles?: number
}

/** Counts cross the boundary as u32. */
const MAX_COUNT = 0xffff_ffff

export const limitOptions = table<Limits>()({
  memory: count(1, Number.MAX_SAFE_INTEGER, 'bytes'),
  cpus: processors,
  pids: count(1, MAX_COUNT),
  openFiles: count(1, MAX_COUNT),
})

/** An object of limits, or undefined when it names none. */
export const limits: Kind<Limits, Limits | undefined> = mapped(
  object(limitOptions, [], 'an object of limits'),
  (limits) => (Object.keys(limits).length > 0 ? limits : undefined),
)
