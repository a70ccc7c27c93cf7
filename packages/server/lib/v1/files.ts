/**
 * Files of a session, without their content: their properties, their directories, and their changes.
 */
import { kinds, plans } from 'nacre/internal'
import { endpoints, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { queryFlag, queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { eventsToEnd } from '../sse.js'
import { encodeReply } from '../wire.js'
import { filesOf, pathOf, pathQuery } from './file-values.js'

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
  define({
    ...endpoints.mkdir,
    summary: 'Creates a directory and its missing parents.',
    errors: [...errors, 'FILE_EXISTS'],
    body: shape({ path: kinds.data }, ['path']),
    handle: async ({ params, body }) =>
      (await files(params)).act({ kind: 'mkdir', path: kinds.checkPath(body.path, 'path') }),
  })
  define({
    ...endpoints.chmod,
    summary: 'Sets the permission bits of a file or a directory.',
    errors,
    body: shape({ path: kinds.data, mode: tables.fileWriteOptions.mode }, ['path', 'mode']),
    handle: async ({ params, body: { path, mode } }) =>
      (await files(params)).act(plans.planFileMode(path, mode)),
  })
  define({
    ...endpoints.rename,
    summary: 'Renames a file or a directory.',
    errors: [...errors, 'FILE_EXISTS', 'IS_A_DIRECTORY'],
    body: shape({ from: kinds.data, to: kinds.data }, ['from', 'to']),
    handle: async ({ params, body }) => (await files(params)).act(plans.planFileRename(body.from, body.to)),
  })
  define({
    ...endpoints.copy,
    summary: 'Copies a file or a directory.',
    errors: [...errors, 'FILE_EXISTS', 'IS_A_DIRECTORY', 'NO_SPACE'],
    body: shape({ from: kinds.data, to: kinds.data, ...described(tables.fileCopyOptions) }, ['from', 'to']),
    handle: async ({ params, body: { from, to, ...options } }) =>
      (await files(params)).act(plans.planFileCopy(from, to, options)),
  })
  define({
    ...endpoints.remove,
    summary: 'Removes a file or a directory.',
    errors: [...errors, 'IS_A_DIRECTORY'],
    body: shape({ path: kinds.data, ...described(tables.fileRemoveOptions) }, ['path']),
    handle: async ({ params, body: { path, ...options } }) =>
      (await files(params)).act(plans.planFileRemove(path, options)),
  })
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
