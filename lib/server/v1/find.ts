/**
 * Processes and services by their ids.
 */

import { engineError, OptionError } from '../../base/errors.js'
import type { Process, Sandbox, Service } from '../../public/index.js'
import { instanceOf } from '../instance.js'

/** `reference`: an id, or `id~instance`. Rejects with PROCESS_NOT_FOUND. */
export async function findProcess(sandbox: Sandbox, reference: string): Promise<Process> {
  const [id = '', instance] = reference.split('~', 2)
  const process = await sandbox.getProcess(id)
  if (process === null || (instance !== undefined && instance !== instanceOf(process)))
    throw engineError('PROCESS_NOT_FOUND', `there is no process '${id}'`)
  return process
}

/** Rejects also when it is a process but not a service. */
export async function findService(sandbox: Sandbox, reference: string): Promise<Service> {
  const process = await findProcess(sandbox, reference)
  if ('getHealth' in process) return process as Service
  throw new OptionError('INVALID_OPTION', `process '${process.id}' was not started as a service`)
}
