/**
 * Processes and services by their ids.
 */

import { engineError, OptionError } from '../../base/errors.js'
import type { Process, Sandbox, Service } from '../../public/index.js'

/** Rejects with PROCESS_NOT_FOUND. */
export async function findProcess(sandbox: Sandbox, id: string): Promise<Process> {
  const process = await sandbox.getProcess(id)
  if (process === null) throw engineError('PROCESS_NOT_FOUND', `there is no process '${id}'`)
  return process
}

/** Rejects also when it is a process but not a service. */
export async function findService(sandbox: Sandbox, id: string): Promise<Service> {
  const process = await findProcess(sandbox, id)
  if ('getHealth' in process) return process as Service
  throw new OptionError('INVALID_OPTION', `process '${id}' was not started as a service`)
}
