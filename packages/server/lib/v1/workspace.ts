/** The copy-on-write workspace of the sandbox, and the workspaces with a name that were kept. */
import {
  endpoints,
  planChanges,
  planCommit,
  planDiff,
  planDiscard,
  workspaceChangesOptions,
  workspaceCommitOptions,
  workspaceDiffOptions,
  workspaceDiscardOptions,
} from 'nacre/internal/server'
import type { ByteReply } from '../byte-response.js'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'

const opening = [
  'WORKSPACE_NOT_ENABLED',
  'WORKSPACE_UNSUPPORTED',
  'WORKSPACE_IN_USE',
  'WORKSPACE_LOST',
  'LIMIT_UNSUPPORTED',
]
const applying = ['INVALID_PATH', 'FILE_NOT_FOUND', 'WORKSPACE_BUSY', 'NO_SPACE', 'PERMISSION_DENIED']

export function addWorkspace(define: Define, { backend: { workspace } }: ServerContext): void {
  define({
    ...endpoints.workspaceInfo,
    summary: 'Returns the directory and the name of the workspace.',
    errors: ['WORKSPACE_NOT_ENABLED'],
    handle: async () => workspace.info(),
  })
  define({
    ...endpoints.workspaceChanges,
    summary: 'Lists what differs from the real directory.',
    body: shape(described(workspaceChangesOptions)),
    errors: [...opening, 'INVALID_PATH'],
    handle: async ({ body, signal }) => ({
      changes: await workspace.changes(planChanges({ ...body, signal })),
    }),
  })
  define({
    method: 'POST',
    path: '/v1/workspace/diff',
    summary: "Returns the changes as a patch in git's format.",
    body: shape(described(workspaceDiffOptions)),
    reply: 'bytes',
    errors: [...opening, 'INVALID_PATH', 'FILE_TOO_LARGE', 'PERMISSION_DENIED'],
    handle: async ({ body, signal }) => patchReply(await workspace.diff(planDiff({ ...body, signal }))),
  })
  define({
    ...endpoints.commit,
    summary: 'Applies changes to the real directory. Ends early only while it waits for running commands.',
    body: shape(described(workspaceCommitOptions)),
    errors: [...opening, 'WORKSPACE_CONFLICT', ...applying],
    handle: async ({ body, signal }) => workspace.commit(planCommit({ ...body, signal })),
  })
  define({
    ...endpoints.discard,
    summary: 'Takes changes back. Ends early only while it waits for running commands.',
    body: shape(described(workspaceDiscardOptions)),
    errors: [...opening, ...applying],
    handle: async ({ body, signal }) => workspace.discard(planDiscard({ ...body, signal })),
  })
  define({
    ...endpoints.workspaceUsage,
    summary: 'Measures the layers.',
    errors: opening,
    handle: async () => workspace.usage(),
  })
  define({
    ...endpoints.listWorkspaces,
    summary: 'Lists the workspaces with a name whose layers are in the same directory.',
    handle: async () => ({ workspaces: await workspace.list() }),
  })
  define({
    ...endpoints.deleteWorkspace,
    summary: 'Deletes a workspace with a name, and its changes.',
    errors: ['FILE_NOT_FOUND', 'WORKSPACE_IN_USE', 'INVALID_ID'],
    handle: async ({ params }) => workspace.delete(params.workspaceId),
  })
}

/** Most bytes that the connection is given at once. */
const PIECE_BYTES = 1024 * 1024

/** A patch as a response, in pieces. */
export function patchReply(patch: Uint8Array): ByteReply {
  const headers = {
    'cache-control': 'no-store',
    'content-length': `${patch.length}`,
    'content-type': 'application/octet-stream',
    'x-content-type-options': 'nosniff',
  }
  if (patch.length === 0) return { status: 200, headers }
  const pieces = piecesOf(patch)
  const read = async () => pieces.next().value ?? undefined
  const source = { size: patch.length, version: undefined, isOver: undefined, read, close() {} }
  return { status: 200, headers, first: pieces.next().value ?? undefined, source, length: patch.length }
}

function* piecesOf(bytes: Uint8Array): Generator<Uint8Array, undefined> {
  for (let start = 0; start < bytes.length; start += PIECE_BYTES)
    yield bytes.subarray(start, start + PIECE_BYTES)
}
