/**
 * Files of a session, without their content: their properties, their directories, and their changes.
 */
import { kinds, plans } from 'nacre/internal'
import { endpoints, protocol, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { queryFlag, queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { eventsToEnd } from '../sse.js'
import { encodeReply } from '../wire.js'
import { filesOf, pathOf, pathQuery } from './file-values.js'
import { addSimpleCalls } from './simple-calls.js'

const errors = ['SESSION_NOT_FOUND', 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'NOT_A_DIRECTORY', 'INVALID_PATH']
const base = '/v1/sessions/{sessionId}/files'

export function addFiles(define: Define, { backend }: ServerContext): void {
  const files = ({ sessionId }: { sessionId: string }) => filesOf(backend, sessionId)
  define({
    ...endpoints.stat,
    summary: 'Returns the metadata of a file, or null if it does not exist.',
    errors,
    query: shape({ ...pathQuery, followSymlinks: queryFlag }),
    async handle({ params, query }) {
      const { path, follow } = plans.planFileStat(pathOf(query), { followSymlinks: query.followSymlinks })
      return (await files(params)).stat(path, follow)
    },
  })
  define({
    ...endpoints.listFiles,
    summary: 'Lists a directory, sorted by path. Without a path, lists the directory of the session.',
    errors,
    query: shape({ ...pathQuery, recursive: queryFlag, maxDepth: queryNumber }),
    async handle({ params, query }) {
      const { recursive, maxDepth } = query
      const found = await files(params)
      const { path, depth } = plans.planFileList(pathOf(query, '.'), { recursive, maxDepth })
      return found.list(path, depth)
    },
  })
  addSimpleCalls<typeof protocol.fileCalls, 'sessionId'>(define, protocol.fileCalls, files)
  define({
    method: 'GET',
    path: `${base}/watch`,
    summary:
      'Streams changes of a file or a directory, as events: created, modified, deleted, renamed, overflow, and finally end.',
    errors,
    query: shape({ ...pathQuery, recursive: queryFlag }),
    reply: 'events',
    async handle({ params, query, signal }) {
      const found = await files(params)
      const path = kinds.checkPath(pathOf(query, '.'), 'path')
      const changes = found.watch(path, plans.planFileWatch({ recursive: query.recursive, signal }))
      return eventsToEnd(changes, (change) => [{ data: encodeReply(tables.fileEvent, change) }])
    },
  })
}
