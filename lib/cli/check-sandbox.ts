/** A check before a sandbox is offered to others. */
import type { AnySandbox } from '../calls/index.js'

/**
 * Rejects with the reason if no command can run in the sandbox, as without bash or with isolation that the machine does not
 * support. Otherwise the server or the worker would look healthy, and every call would fail.
 */
export async function checkSandbox(sandbox: AnySandbox): Promise<void> {
  const { id } = await sandbox.createSession()
  await sandbox.deleteSession(id)
}
