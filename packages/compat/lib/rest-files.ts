/** Files as the bodies of requests and replies. */
import type { IncomingMessage } from 'node:http'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { HttpError } from './failure.js'
import { isForm, receiveForm } from './form.js'
import type { Hosted } from './hosted.js'
import type { Exchange } from './http.js'

const INVALID = 'INVALID_FILE_PATH'

/** Sends the file that `?path` names. */
export async function sendFile(
  { sandbox, view }: Hosted,
  { request, response, url }: Exchange,
): Promise<void> {
  const given = url.searchParams.get('path') ?? ''
  const file = view.resolve(given)
  const info = await sandbox.files.stat(file)
  if (info === null) throw new HttpError(404, `there is no file '${given}'`, 'FILE_NOT_FOUND')
  if (info.type === 'directory') throw new HttpError(400, `'${given}' is a directory`, INVALID)
  if (info.type !== 'file') throw new HttpError(400, `'${given}' is no regular file`, INVALID)
  const headers = { 'content-type': 'application/octet-stream', vary: 'Accept-Encoding' }
  const isZipped = request.headers['accept-encoding']?.trim() === 'gzip'
  // Files of /proc have content, but no size.
  const isSized = info.size > 0 || !/^\/(proc|sys)\//.test(file)
  const range = isSized ? { end: info.size } : {}
  const content = Readable.fromWeb(sandbox.files.readStream(file, range) as never)
  await new Promise<void>((resolve) => content.once('readable', resolve).once('error', resolve))
  if (content.errored !== null) throw content.errored
  response.writeHead(200, {
    ...headers,
    ...(isZipped ? { 'content-encoding': 'gzip' } : isSized ? { 'content-length': info.size } : {}),
  })
  // A failure ends the connection.
  const finished = () => {}
  const all = whole(content, isSized ? info.size : 0)
  if (isZipped) pipeline(all, createGzip(), response, finished)
  else pipeline(all, response, finished)
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

/** Writes the body, or each part `file` of a form. */
export async function receiveFiles(hosted: Hosted, { request, url }: Exchange): Promise<Written[]> {
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
    written.push({ name: path.basename(file), path: shown, type: 'file' })
    await hosted.sandbox.files.write(file, content)
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
