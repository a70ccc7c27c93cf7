/**
 * The content of files: downloads with ranges, and uploads. Both are streamed.
 */
import { kinds, plans, SandboxError } from 'nacre/internal'
import { type backends, endpoints } from 'nacre/internal/server'
import type { ByteReply } from '../byte-response.js'
import type { ServerContext } from '../context.js'
import { queryFlag, queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { type ByteRange, parseRange } from './byte-range.js'
import { filesOf, pathOf, pathQuery } from './file-values.js'

const HEADERS = {
  'accept-ranges': 'bytes',
  'cache-control': 'no-store',
  'content-type': 'application/octet-stream',
  // A browser must not show a file's content as a page: its author may be hostile.
  'x-content-type-options': 'nosniff',
}

const errors = ['SESSION_NOT_FOUND', 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'IS_A_DIRECTORY', 'INVALID_PATH']

export function addFileContent(define: Define, { backend }: ServerContext): void {
  define({
    method: 'GET',
    path: '/v1/sessions/{sessionId}/files/content',
    summary:
      'Returns the content of a file. `Range` selects one range of bytes. With `If-Range`, the range applies only if the file still has that `ETag`. HEAD returns the length.',
    query: shape({ ...pathQuery, maxBytes: queryNumber }),
    reply: 'bytes',
    errors: [...errors, 'FILE_TOO_LARGE'],
    async handle({ params: { sessionId }, query, header, method, signal }) {
      const files = await filesOf(backend, sessionId)
      const path = kinds.checkPath(pathOf(query), 'path')
      const asked = { range: header('range'), ifRange: header('if-range'), method }
      return fileReply(files, path, asked, signal, query.maxBytes)
    },
  })
  define({
    ...endpoints.writeFile,
    // Its response would begin before the body has arrived.
    waits: false,
    summary:
      'Writes a file. The body is the content, of any length. Once complete, it replaces the old file.',
    query: shape({ ...pathQuery, mode: queryNumber, append: queryFlag }),
    upload: true,
    errors: [...errors, 'NO_SPACE', 'NOT_A_DIRECTORY'],
    async handle({ params: { sessionId }, query, upload, signal }) {
      const { mode, append } = query
      const files = await filesOf(backend, sessionId)
      const plan = plans.planFileWrite(pathOf(query), upload ?? '', { mode, append, signal })
      return files.write(plan)
    },
  })
}

/** Where files are read. */
interface Openable {
  open: backends.FilesBackend['open']
  stat(path: kinds.CheckedPath): Promise<{ size: number } | null>
}

/** The headers of a request for a file, and its method. */
interface FileRequest {
  range: string | undefined
  ifRange: string | undefined
  method: string | undefined
}

/**
 * The content of a file, or the range of it that the header `Range` names. With `If-Range`, it is the whole content
 * when the file has changed. Without a body for HEAD.
 */
export async function fileReply(
  files: Openable,
  path: kinds.CheckedPath,
  asked: FileRequest,
  signal: AbortSignal,
  maxBytes?: number,
): Promise<ByteReply> {
  const range = await absolute(files, path, parseRange(asked.range))
  let reply = await content(files, path, range, maxBytes, signal)
  if (range !== undefined && asked.ifRange !== undefined && asked.ifRange !== reply.headers.etag) {
    reply.source?.close()
    reply = await content(files, path, undefined, maxBytes, signal)
  }
  if (asked.method !== 'HEAD') return reply
  reply.source?.close()
  return { ...reply, first: undefined, source: undefined }
}

/** A range of bytes at the end needs the length of the file first. */
async function absolute(
  files: Openable,
  path: kinds.CheckedPath,
  range: ByteRange | undefined,
): Promise<{ start: number; end: number | undefined } | undefined> {
  if (range === undefined || 'start' in range) return range
  const size = (await files.stat(path))?.size ?? 0
  return { start: range.suffix === 0 ? size : Math.max(0, size - range.suffix), end: undefined }
}

async function content(
  files: Openable,
  path: kinds.CheckedPath,
  range: { start: number; end: number | undefined } | undefined,
  maxBytes: number | undefined,
  signal: AbortSignal,
): Promise<ByteReply> {
  const source = files.open(path, plans.planFileStream({ ...range, signal }))
  // The first piece shows whether there is a file; its errors have a status.
  const first = await source.read()
  const { size: opened, version, isOver } = source
  const size = opened && isOver ? sizeRead(opened, range, first) : opened
  if (maxBytes !== undefined && size !== undefined && size > maxBytes) {
    source.close()
    const message = `'${path.shown}' has ${size} bytes, more than maxBytes allows (${maxBytes})`
    throw new SandboxError('FILE_TOO_LARGE', message, { path: path.shown })
  }
  // Files of /proc have no length, and so no ranges: their whole content is sent, to its end.
  if (size === undefined || size === 0) {
    if (range === undefined) return { status: 200, headers: HEADERS, first, source }
    source.close()
    const whole = await content(files, path, undefined, maxBytes, signal)
    return whole.first === undefined && whole.source !== undefined ? unsatisfiable(whole.source, 0) : whole
  }
  const versioned = { ...HEADERS, ...(version !== undefined && { etag: `"${version}"` }) }
  if (range === undefined)
    return {
      status: 200,
      headers: { ...versioned, 'content-length': `${size}` },
      first,
      source,
      length: size,
    }
  if (range.start >= size) return unsatisfiable(source, size, versioned)
  const end = Math.min(range.end ?? size - 1, size - 1)
  const length = end - range.start + 1
  const headers = {
    ...versioned,
    'content-length': `${length}`,
    'content-range': `bytes ${range.start}-${end}/${size}`,
  }
  return { status: 206, headers, first, source, length }
}

/** The size of a file all of which has been read: it may have become shorter since it was opened. */
function sizeRead(
  opened: number,
  range: { start: number; end: number | undefined } | undefined,
  read: Uint8Array | undefined,
): number {
  const { start = 0, end = opened - 1 } = range ?? {}
  const expected = Math.min(end + 1, opened) - start
  const length = read?.length ?? 0
  return expected > 0 && length < expected ? start + length : opened
}

function unsatisfiable(
  source: backends.FileSource,
  size: number,
  headers: Record<string, string> = HEADERS,
): ByteReply {
  source.close()
  return { status: 416, headers: { ...headers, 'content-range': `bytes */${size}` } }
}
