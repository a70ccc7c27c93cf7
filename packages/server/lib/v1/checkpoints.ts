/** Checkpoints of the workspace and the sessions. */
import { checkpointOptions, endpoints, planCheckpoint, withCheckpoint } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'

const errors = ['WORKSPACE_NOT_ENABLED', 'CHECKPOINT_NOT_FOUND']

export function addCheckpoints(define: Define, server: ServerContext): void {
  const { checkpoints } = server.backend
  define({
    ...endpoints.makeCheckpoint,
    summary:
      'Keeps the files of the workspace and the state of every session. Ends early only while it waits for running commands.',
    body: shape(described(checkpointOptions)),
    errors: [
      ...['WORKSPACE_NOT_ENABLED', 'WORKSPACE_UNSUPPORTED', 'WORKSPACE_IN_USE', 'WORKSPACE_LOST'],
      ...['WORKSPACE_BUSY', 'NO_SPACE'],
    ],
    handle: async ({ body, signal }) => checkpoints.make(planCheckpoint({ ...body, signal })),
  })
  define({
    ...endpoints.listCheckpoints,
    summary: 'Lists the checkpoints, the oldest first, without automatic ones.',
    errors: ['WORKSPACE_NOT_ENABLED'],
    handle: async () => ({ checkpoints: await checkpoints.list() }),
  })
  define({
    ...endpoints.deleteCheckpoint,
    summary: 'Deletes a checkpoint.',
    errors,
    handle: async ({ params }) =>
      withCheckpoint(params.checkpointId, checkpoints, (number) => checkpoints.delete(number)),
  })
  define({
    ...endpoints.rollBack,
    summary:
      'Ends every program of the sandbox, and goes on with the files and the sessions of a checkpoint.',
    errors: [...errors, 'NO_SPACE'],
    async handle({ params }) {
      const done = await withCheckpoint(params.checkpointId, checkpoints, (number) =>
        checkpoints.rollBack(number),
      )
      for (const id of done.endedSessions) server.sessionTimeouts.delete(id)
      return done
    },
  })
  define({
    ...endpoints.undo,
    summary:
      'Ends every program of the sandbox, and goes on with the files and the sessions of the moment before the last command that has an automatic checkpoint.',
    errors: [...errors, 'NO_SPACE'],
    async handle() {
      const done = await checkpoints.undo()
      for (const id of done.endedSessions) server.sessionTimeouts.delete(id)
      return done
    },
  })
}
