/** `/files`: reading and writing over plain HTTP. */
import type { IncomingMessage } from 'node:http'
import path from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, createGzip } from 'node:zlib'
import { Busboy } from '@fastify/busboy'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Exchange, sendJson } from '../http.js'

/** In one form. */
const MOST_PARTS = 10_000

export async function sendFile(
  { sandbox, view }: Hosted,
  { request, response, url }: Exchange,
): Promise<void> {
  const given = url.searchParams.get('path') ?? ''
  const file = view.resolve(given)
  const info = await sandbox.files.stat(file)
  if (info === null) throw new HttpError(404, `there is no file '${given}'`)
  if (info.type === 'directory') throw new HttpError(400, `'${given}' is a directory`)
  if (info.type !== 'file') throw new HttpError(400, `'${given}' is no regular file`)
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
  if (isZipped) pipeline(content, createGzip(), response, finished)
  else pipeline(content, response, finished)
}

interface Written {
  name: string
  path: string
  type: 'file'
}

/** Writes the body, or each part `file` of a form. */
export async function receiveFiles(hosted: Hosted, { request, response, url }: Exchange): Promise<void> {
  if (Object.keys(request.headers).some((name) => name.startsWith('x-metadata-')))
    throw new HttpError(400, 'nacre does not store metadata of files')
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
    if (known?.type === 'directory') throw new HttpError(400, `'${shown}' is a directory`)
    written.push({ name: path.basename(file), path: shown, type: 'file' })
    await hosted.sandbox.files.write(file, content)
  }
  if (/^multipart\/form-data\s*(;|$)/i.test(type))
    await receiveForm(body, type, (name, content) => save(given ?? name, content))
  else if (/^application\/octet-stream\s*(;|$)/i.test(type)) {
    if (given === undefined) throw new HttpError(400, 'a body without a form needs ?path')
    await save(given, body)
  } else throw new HttpError(400, `the content type must be multipart/form-data or application/octet-stream`)
  sendJson(response, 200, written)
}

function bodyOf(request: IncomingMessage): Readable {
  const encoding = request.headers['content-encoding'] ?? 'identity'
  if (encoding === 'identity') return request
  if (encoding !== 'gzip') throw new HttpError(400, `the content encoding must be gzip, not ${encoding}`)
  // A broken body fails the write.
  return pipeline(request, createGunzip(), () => {})
}

/** Saves the parts one after the other. Resolves when all are saved. */
function receiveForm(
  body: Readable,
  type: string,
  save: (name: string, content: Readable) => Promise<void>,
): Promise<void> {
  const form = openForm(type)
  return new Promise((resolve, reject) => {
    let last = Promise.resolve()
    let part: Readable | undefined
    const fail = (error: unknown) => {
      body.unpipe(form)
      part?.destroy(error as Error)
      reject(error)
    }
    form.on('file', (field: string, content: Readable, name: string | undefined) => {
      // What ends the form early is reported by the parser, too.
      content.on('error', () => {})
      if (field !== 'file') return void content.resume()
      part = content
      last = last.then(() => save(unescaped(name ?? ''), content))
      last.catch(fail)
    })
    form.once('error', (error: unknown) => fail(new HttpError(400, `the form cannot be read: ${error}`)))
    form.once('partsLimit', () => fail(new HttpError(400, `the form has more than ${MOST_PARTS} parts`)))
    form.once('finish', () => last.then(resolve, reject))
    body.once('error', fail)
    body.once('close', () => {
      if (!body.readableEnded) fail(new HttpError(400, 'the body broke off'))
    })
    body.pipe(form)
  })
}

/** Forms escape these characters, and no others. */
function unescaped(name: string): string {
  return name.replace(/%(?:22|0A|0D)/gi, decodeURIComponent)
}

function openForm(type: string): InstanceType<typeof Busboy> {
  try {
    return new Busboy({
      headers: { 'content-type': type },
      // Some clients send parts without a file name.
      isPartAFile: () => true,
      // The name of the file is its path.
      preservePath: true,
      limits: { parts: MOST_PARTS },
    })
  } catch (error) {
    throw new HttpError(400, `the form cannot be read: ${(error as Error).message}`)
  }
}
