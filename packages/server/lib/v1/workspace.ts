/** The copy-on-write workspace of the sandbox, and the workspaces with a name that were kept. */
import { plans } from 'nacre/internal'
import { protocol, tables } from 'nacre/internal/server'
import type { ByteReply } from '../byte-response.js'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { addSimpleCalls } from './simple-calls.js'

export function addWorkspace(define: Define, { backend: { workspace } }: ServerContext): void {
  addSimpleCalls(define, protocol.workspaceCalls, () => workspace)
  define({
    method: 'POST',
    path: '/v1/workspace/diff',
    summary: "Returns the changes as a patch in git's format.",
    body: shape(described(tables.workspaceDiffOptions)),
    reply: 'bytes',
    errors: [...protocol.workspaceCalls.changes.errors, 'FILE_TOO_LARGE', 'PERMISSION_DENIED'],
    handle: async ({ body, signal }) => patchReply(await workspace.diff(plans.planDiff({ ...body, signal }))),
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
