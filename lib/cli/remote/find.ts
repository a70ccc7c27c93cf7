/** Finds a process of a server. */
import { SandboxError } from '../../base/errors.js'
import type { SandboxClient } from '../../calls/client.js'
import type { Process } from '../../calls/index.js'

/** Rejects with PROCESS_NOT_FOUND. */
export async function processOf(client: SandboxClient, id: string): Promise<Process> {
  const process = await client.getProcess(id)
  if (process === null)
    throw new SandboxError('PROCESS_NOT_FOUND', `the server has no process '${id}': see nacre ps --all`)
  return process
}
