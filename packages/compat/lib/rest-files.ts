/** Files as the bodies of requests and replies. */
import type { IncomingMessage } from 'node:http'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import type { Files } from 'nacre'
import { isCode } from 'nacre/internal'
import { HttpError } from './failure.js'
import { isForm, receiveForm } from './form.js'
import type { Hosted } from './hosted.js'
import type { Exchange } from './http.js'

const INVALID = 'INVALID_FILE_PATH'
/** A file of fewer bytes is read with one call. */
const SMALL_BYTES = 256 * 1024 - 1

/** Sends the file that `?path` names. */
export async function sendFile(
  { sandbox, view }: Hosted,
  { request, response, url }: Exchange,
): Promise<void> {
  const file = view.resolve(url.searchParams.get('path') ?? '')
  const { size, pieces } = await openFile(sandbox.files, file)
  const isZipped = request.headers['accept-encoding']?.trim() === 'gzip'
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    vary: 'Accept-Encoding',
    ...(isZipped ? { 'content-encoding': 'gzip' } : size !== undefined && { 'content-length': size }),
  })
  // A failure ends the connection.
  const finished = () => {}
  if (isZipped) pipeline(pieces, createGzip(), response, finished)
  else pipeline(pieces, response, finished)
}

interface Content {
  /** In bytes. Undefined for large files of /proc. */
  size: number | undefined
  pieces: AsyncIterable<Buffer>
}

/** The content of a file. */
export async function openFile(files: Files, file: string): Promise<Content> {
  return (await readSmall(files, file)) ?? openLarge(files, file)
}

/** Undefined for a larger file. */
async function readSmall(files: Files, file: string): Promise<Content | undefined> {
  try {
    const content = await files.read(file, { encoding: 'buffer', maxBytes: SMALL_BYTES })
    return { size: content.length, pieces: Readable.from([content]) }
  } catch (error) {
    if (isCode(error, 'FILE_TOO_LARGE')) return undefined
    throw error
  }
}

async function openLarge(files: Files, file: string): Promise<Content> {
  const { size = 0 } = (await files.stat(file)) ?? {}
  // Files of /proc have content, but no size.
  const isSized = size > 0
  const stream = Readable.fromWeb(files.readStream(file, isSized ? { end: size - 1 } : {}) as never)
  await new Promise<void>((resolve) => stream.once('readable', resolve).once('error', resolve))
  if (stream.errored !== null) throw stream.errored
  return { size: isSized ? size : undefined, pieces: whole(stream, size) }
}

/** Fails if the file has become shorter meanwhile: the client waits for the rest. */
async function* whole(content: Readable, size: number): AsyncGenerator<Buffer> {
  let sent = 0
  for await (const piece of content as AsyncIterable<Buffer>) {
    sent += piece.length
    yield piece
  }
  if (sent < size) throw new Error(`the file has become shorter: ${sent} of ${size} bytes`)
}

export interface Written {
  name: string
  path: string
  type: 'file'
}

/** Writes a file. Resolves to what else is to be said about it. */
export type FileWriter = (hosted: Hosted, file: string, content: Readable) => Promise<object>

const writePlainly: FileWriter = async ({ sandbox }, file, content) => {
  await sandbox.files.write(file, content)
  return {}
}

/** Writes the body, or each part `file` of a form. */
export async function receiveFiles(
  hosted: Hosted,
  { request, url }: Exchange,
  write: FileWriter = writePlainly,
): Promise<Written[]> {
  const type = request.headers['content-type'] ?? ''
  const given = url.searchParams.get('path') ?? undefined
  const body = bodyOf(request)
  const written: Written[] = []
  const save = async (name: string, content: Readable) => {
    const file = hosted.view.resolve(name)
    const shown = hosted.view.shown(file)
    if (written.some((other) => other.path === shown))
      throw new HttpError(400, `the request has two files for the same path '${shown}'`)
    const known = await hosted.sandbox.files.stat(file)
    if (known?.type === 'directory') throw new HttpError(400, `'${shown}' is a directory`, INVALID)
    const about: Written = { name: path.basename(file), path: shown, type: 'file' }
    written.push(about)
    Object.assign(about, await write(hosted, file, content))
  }
  if (isForm(type))
    await receiveForm(body, type, async (field, content, name) => {
      if (field === 'file') await save(given ?? unescaped(name ?? ''), content)
      else content.resume()
    })
  else if (/^application\/octet-stream\s*(;|$)/i.test(type)) {
    if (given === undefined) throw new HttpError(400, 'a body without a form needs ?path')
    await save(given, body)
  } else throw new HttpError(400, `the content type must be multipart/form-data or application/octet-stream`)
  return written
}

function bodyOf(request: IncomingMessage): Readable {
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity') return request
  if (encoding !== 'gzip') throw new HttpError(400, `the content encoding must be gzip, not ${encoding}`)
  // A broken body fails the write.
  return pipeline(request, createGunzip(), () => {})
}

/** Forms escape these characters, and no others. */
function unescaped(name: string): string {
  return name.replace(/%(?:22|0A|0D)/gi, decodeURIComponent)
}
