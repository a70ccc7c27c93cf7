/**
 * The routes on files: reading, writing, removing.
 */

import type { IncomingMessage } from 'node:http'
import { type ByteReply, fileReply } from '@nacre/server/internal'
import { kinds } from 'nacre/internal'
import type { backends } from 'nacre/internal/server'
import { listDirectory } from './listing.js'
import { RestRefusal } from './rest-error.js'
import type { Runtime } from './runtime.js'
import { plainPathBelowRoot } from './target.js'
import { upload } from './upload.js'

/** A response: bytes, JSON or nothing. */
export type Reply = { bytes: ByteReply } | { json: unknown } | 'nothing'

const NORMAL_MODE = 0o644

/** The content of a file, or what is in a directory. */
export async function readFile(
  files: backends.FilesBackend,
  path: kinds.CheckedPath,
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<Reply> {
  const info = await files.stat(path)
  if (info === null) throw new RestRefusal('NOT_FOUND', 'there is no such file in the sandbox')
  if (info.type === 'directory') {
    if (incoming.method === 'HEAD') return { json: undefined }
    return { json: await listDirectory(files, path) }
  }
  const { headers: sent, method } = incoming
  const asked = { range: sent.range, ifRange: sent['if-range']?.toString(), method }
  const reply = await fileReply(files, path, asked, signal)
  const headers = { ...reply.headers, 'last-modified': info.modifiedAt.toUTCString() }
  return { bytes: { ...reply, headers } }
}

/** Writes a file, which takes the place of the old one when all of it has arrived. */
export async function writeFile(
  runtime: Runtime,
  path: kinds.CheckedPath,
  query: URLSearchParams,
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<Reply> {
  const mode = modeOf(query.get('mode'))
  // A body is read once, so the session must be there before it.
  const info = await runtime.inSession(() => runtime.files.stat(path))
  if (info?.type === 'directory') throw new RestRefusal('INVALID_ARGUMENT', 'the path is a directory')
  await upload(incoming, (data) => runtime.files.write({ path, data, mode, append: false, signal }))
  return 'nothing'
}

/** Writes the part `file` of a form to the path that is its file name. */
export async function writePart(
  runtime: Runtime,
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<void> {
  await runtime.inSession(() => runtime.files.stat(kinds.checkPath('.', 'path')))
  await upload(incoming, async (data, name) => {
    if (name === undefined || name === '')
      throw new RestRefusal('INVALID_ARGUMENT', 'the part `file` of the form has no file name')
    const path = plainPathBelowRoot(name)
    if (isRoot(path)) throw new RestRefusal('INVALID_ARGUMENT', 'the path is a directory')
    await runtime.files.write({ path, data, mode: NORMAL_MODE, append: false, signal })
  })
}

/** Removes a file, a symlink or a directory. The root stays; with `recursive`, it is emptied. */
export async function removeFile(
  files: backends.FilesBackend,
  path: kinds.CheckedPath,
  query: URLSearchParams,
): Promise<Reply> {
  const recursive = flagOf(query.get('recursive'))
  if (isRoot(path)) {
    if (!recursive) throw notEmpty()
    for (const { path: own, pathBytes } of await files.list(path, 1))
      await files.remove({ path: kinds.checkPath(pathBytes ?? own, 'path'), recursive: true })
    return 'nothing'
  }
  try {
    await files.remove({ path, recursive })
  } catch (error) {
    if (!recursive && (error as { code?: unknown }).code === 'IS_A_DIRECTORY') throw notEmpty()
    throw error
  }
  return 'nothing'
}

function isRoot({ shown }: kinds.CheckedPath): boolean {
  return shown === '.'
}

function notEmpty(): RestRefusal {
  return new RestRefusal('CONFLICT', 'the directory is not empty; recursive=true removes its content')
}

function modeOf(text: string | null): number {
  if (text === null || text === '') return NORMAL_MODE
  if (/^0[0-7]{3}$/.test(text)) return Number.parseInt(text, 8)
  throw new RestRefusal('INVALID_ARGUMENT', 'mode must be four octal digits, the first of them 0, like 0644')
}

function flagOf(text: string | null): boolean {
  if (text === null || /^(|0|f|false)$/i.test(text)) return false
  if (/^(1|t|true)$/i.test(text)) return true
  throw new RestRefusal('INVALID_ARGUMENT', 'recursive must be true or false')
}
