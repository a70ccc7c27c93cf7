/** Checkpoints of the workspace and the sessions. */
import type { Undo } from 'nacre'
import { endpoints, protocol } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { addSimpleCalls } from './simple-calls.js'

const errors = [...protocol.checkpointCalls.delete.errors, 'NO_SPACE']

export function addCheckpoints(define: Define, { backend, sessionTimeouts }: ServerContext): void {
  const { checkpoints } = backend
  const forgetting = <T extends Pick<Undo, 'endedSessions'>>(done: T): T => {
    for (const id of done.endedSessions) sessionTimeouts.delete(id)
    return done
  }
  addSimpleCalls(define, protocol.checkpointCalls, () => checkpoints)
  define({
    ...endpoints.rollBack,
    summary:
      'Ends every program of the sandbox, and goes on with the files and the sessions of a checkpoint.',
    errors,
    handle: async ({ params }) => forgetting(await checkpoints.rollBack(params)),
  })
  define({
    ...endpoints.undo,
    summary:
      'Ends every program of the sandbox, and goes on with the files and the sessions of the moment before the last command that has an automatic checkpoint.',
    errors,
    handle: async () => forgetting(await checkpoints.undo()),
  })
}
