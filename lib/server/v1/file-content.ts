/**
 * The content of files: downloads with ranges, and uploads. Both are streamed.
 */
import { SandboxError } from '../../base/errors.js'
import type { FilePath, Files } from '../../public/index.js'
import { sourceOf } from '../../sandbox/files.js'
import type { ByteReply } from '../byte-response.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { queryFlag, queryNumber, sessionParams, strictObject } from '../schemas.js'
import { type ByteRange, parseRange } from './byte-range.js'
import { encodeFile, fileSchema, filesOf, pathOf, pathQuery } from './file-values.js'

const HEADERS = {
  'accept-ranges': 'bytes',
  'cache-control': 'no-store',
  'content-type': 'application/octet-stream',
  // A browser must not show a file's content as a page: its author may be hostile.
  'x-content-type-options': 'nosniff',
}

const errors = ['SESSION_NOT_FOUND', 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'IS_A_DIRECTORY', 'INVALID_PATH']

export function addFileContent(define: Define, { sandbox }: ServerContext): void {
  define({
    method: 'get',
    path: '/v1/sessions/{sessionId}/files/content',
    tag: 'files',
    summary:
      'Returns the content of a file. `Range` selects one range of bytes. With `If-Range`, the range applies only if the file still has that `ETag`. HEAD returns the length.',
    params: sessionParams,
    query: strictObject({ ...pathQuery, maxBytes: queryNumber.optional() }),
    reply: 'bytes',
    errors: [...errors, 'FILE_TOO_LARGE'],
    async handle({ params: { sessionId }, query, header, method, signal }) {
      const files = await filesOf(sandbox, sessionId)
      const path = pathOf(query)
      const range = { header: header('range'), ifRange: header('if-range') }
      const reply = await fileReply(files, path, range, signal, query.maxBytes)
      if (method !== 'HEAD') return reply
      await reply.rest?.cancel()
      return { ...reply, first: undefined, rest: undefined }
    },
  })
  define({
    method: 'put',
    path: '/v1/sessions/{sessionId}/files/content',
    tag: 'files',
    summary:
      'Writes a file. The body is the content, of any length. Once complete, it replaces the old file.',
    params: sessionParams,
    query: strictObject({ ...pathQuery, mode: queryNumber.optional(), append: queryFlag.optional() }),
    upload: true,
    reply: fileSchema,
    errors: [...errors, 'NO_SPACE', 'NOT_A_DIRECTORY'],
    async handle({ params: { sessionId }, query, upload, signal }) {
      const { mode, append } = query
      const files = await filesOf(sandbox, sessionId)
      return encodeFile(await files.write(pathOf(query), upload ?? '', { mode, append, signal }))
    },
  })
}

/**
 * The content of a file, or the range of it that the header `Range` names. With `If-Range`, it is the whole content
 * when the file has changed.
 */
export async function fileReply(
  files: Files,
  path: FilePath,
  { header, ifRange }: { header: string | undefined; ifRange?: string | undefined },
  signal: AbortSignal,
  maxBytes?: number,
): Promise<ByteReply> {
  const range = await absolute(files, path, parseRange(header))
  const reply = await content(files, path, range, maxBytes, signal)
  if (range === undefined || ifRange === undefined || ifRange === reply.headers.etag) return reply
  await reply.rest?.cancel()
  return content(files, path, undefined, maxBytes, signal)
}

/** A range of bytes at the end needs the length of the file first. */
async function absolute(
  files: Files,
  path: FilePath,
  range: ByteRange | undefined,
): Promise<{ start: number; end: number | undefined } | undefined> {
  if (range === undefined || 'start' in range) return range
  const size = (await files.stat(path))?.size ?? 0
  return { start: range.suffix === 0 ? size : Math.max(0, size - range.suffix), end: undefined }
}

async function content(
  files: Files,
  path: FilePath,
  range: { start: number; end: number | undefined } | undefined,
  maxBytes: number | undefined,
  signal: AbortSignal,
): Promise<ByteReply> {
  const stream = files.readStream(path, { ...range, signal })
  const rest = stream.getReader()
  // The first piece shows whether there is a file; its errors have a status.
  const { value: first } = await rest.read()
  const { size: opened, version, isOver = false } = sourceOf(stream)
  const size = opened && isOver ? sizeRead(opened, range, first) : opened
  if (maxBytes !== undefined && size !== undefined && size > maxBytes) {
    await rest.cancel()
    const shown = typeof path === 'string' ? path : new TextDecoder().decode(path)
    const message = `'${shown}' has ${size} bytes, more than maxBytes allows (${maxBytes})`
    throw new SandboxError('FILE_TOO_LARGE', message, { path: shown })
  }
  // Files of /proc have no length, and so no ranges: their whole content is sent, to its end.
  if (size === undefined || size === 0) {
    if (range === undefined) return { status: 200, headers: HEADERS, first, rest }
    await rest.cancel()
    const whole = await content(files, path, undefined, maxBytes, signal)
    return whole.first === undefined && whole.rest !== undefined ? unsatisfiable(whole.rest, 0) : whole
  }
  const versioned = { ...HEADERS, ...(version !== undefined && { etag: `"${version}"` }) }
  if (range === undefined)
    return { status: 200, headers: { ...versioned, 'content-length': `${size}` }, first, rest, length: size }
  if (range.start >= size) return unsatisfiable(rest, size, versioned)
  const end = Math.min(range.end ?? size - 1, size - 1)
  const length = end - range.start + 1
  const headers = {
    ...versioned,
    'content-length': `${length}`,
    'content-range': `bytes ${range.start}-${end}/${size}`,
  }
  return { status: 206, headers, first, rest, length }
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

async function unsatisfiable(
  rest: ReadableStreamDefaultReader<Uint8Array>,
  size: number,
  headers: Record<string, string> = HEADERS,
): Promise<ByteReply> {
  await rest.cancel()
  return { status: 416, headers: { ...headers, 'content-range': `bytes */${size}` } }
}
