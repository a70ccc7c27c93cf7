/**
 * What a process and everything below it use.
 */

import { engineError } from '../../../base/errors.js'
import type { ProcessStats } from '../../../public/index.js'
import type { Engine } from '../engine.js'
import type { ProcessHandle } from './handle.js'

/** Rejects when the process has ended. */
export async function readStats(engine: Engine, handle: ProcessHandle): Promise<ProcessStats> {
  const { stats } = await engine.call((native, id) => native.processStats(id, handle.id))
  if (stats === undefined) throw engineError('ENGINE_ERROR', 'the engine gave no stats')
  const { cpuTime, memory, memoryPeak, pids, ioRead, ioWrite } = stats
  return { cpuTime, memory, memoryPeak, pids, ioRead, ioWrite }
}
