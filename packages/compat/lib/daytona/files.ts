/** Files below /files. */
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { describe, describeAll, type Entry } from '../entry.js'
import { HttpError } from '../failure.js'
import { isForm, receiveForm } from '../form.js'
import type { Hosted } from '../hosted.js'
import { MOST_CONTENT_BYTES, readJson, sendJson, sendNothing, writePiece } from '../http.js'
import { openFile, receiveFiles, sendFile } from '../rest-files.js'
import { daytonaError, describeError } from './failure.js'
import { type Run, runProgram, wholeOutput } from './process.js'
import type { Call, Routes } from './routes.js'
import { listOfTexts, number, optionalText, query, text } from './values.js'

const MOST_DEPTH = 1000
const MOST_PATH_BYTES = 4096
/** Of a file in which text is replaced, before and after. */
const MOST_REPLACED_BYTES = 8 * 1024 * 1024
const MOST_FILES = 10_000
/** A search that takes longer is ended. */
const SEARCH: Run = { timeout: 300_000 }
/** What shells exit with when there is no such program. */
const NOT_INSTALLED = 127
const INVALID = 'INVALID_FILE_PATH'

export const fileRoutes: Routes = {
  'GET /files': async ({ hosted, response, url }) => {
    const directory = hosted.view.resolve(url.searchParams.get('path') ?? '')
    const depth = number(url.searchParams.get('depth') ?? 1, 'depth', 1, MOST_DEPTH)
    const found = await describe(hosted, directory)
    if (found.type !== 'FILE_TYPE_DIRECTORY')
      throw new HttpError(400, `${found.path} is no directory`, INVALID)
    sendJson(response, 200, (await describeAll(hosted, directory, depth)).map(shown))
  },
  'DELETE /files': async ({ hosted, response, url }) => {
    const file = pathIn(hosted, url)
    const recursive = url.searchParams.get('recursive') === 'true'
    const { type, symlinkTarget } = await describe(hosted, file)
    if (type === 'FILE_TYPE_DIRECTORY' && symlinkTarget === undefined && !recursive)
      throw new HttpError(400, 'a directory can only be deleted with recursive')
    await hosted.sandbox.files.remove(file, { recursive })
    sendNothing(response)
  },
  'GET /files/info': async ({ hosted, response, url }) =>
    sendJson(response, 200, shown(await describe(hosted, pathIn(hosted, url)))),
  'GET /files/download': ({ hosted, request, response, url }) => {
    const name = encodeURIComponent(path.basename(query(url, 'path'))).replaceAll("'", '%27')
    response.setHeader('content-disposition', `attachment; filename*=UTF-8''${name}`)
    return sendFile(hosted, { request, response, url })
  },
  'POST /files/upload': receiveOne,
  'POST /files/upload-v2': receiveOne,
  'POST /files/bulk-upload': receiveMany,
  'POST /files/bulk-download': sendMany,
  'POST /files/folder': async ({ hosted, response, url }) => {
    const directory = pathIn(hosted, url)
    const { files } = hosted.sandbox
    const known = await files.stat(directory)
    if (known !== null && known.type !== 'directory')
      throw new HttpError(409, `${hosted.view.shown(directory)} exists and is no directory`)
    if (known === null) await files.mkdir(directory)
    const mode = modeIn(url)
    if (known === null && mode !== undefined) await change(hosted, ['chmod', mode], directory)
    sendNothing(response, 201)
  },
  'POST /files/move': async ({ hosted, response, url }) => {
    const from = pathIn(hosted, url, 'source')
    const to = pathIn(hosted, url, 'destination')
    await describe(hosted, from)
    await describe(hosted, path.dirname(to))
    if (await hosted.sandbox.files.exists(to))
      throw new HttpError(409, `the destination ${hosted.view.shown(to)} exists already`)
    await hosted.sandbox.files.rename(from, to)
    sendNothing(response, 200)
  },
  'POST /files/permissions': async ({ hosted, response, url }) => {
    const file = pathIn(hosted, url)
    const known = await describe(hosted, file)
    const mode = modeIn(url)
    // The names that clients see are no users of this machine.
    const [owner, group] = (['owner', 'group'] as const).map((name) => {
      const wanted = url.searchParams.get(name) ?? ''
      return wanted === known[name] ? '' : wanted
    })
    // First, since it resets bits of the mode, and is what can be refused.
    if (owner || group) await change(hosted, ['chown', group ? `${owner}:${group}` : `${owner}`], file)
    if (mode !== undefined) await change(hosted, ['chmod', mode], file)
    sendNothing(response, 200)
  },
  'POST /files/replace': async ({ hosted, request, response }) => {
    const given = await readJson(request, MOST_CONTENT_BYTES)
    const names = listOfTexts(given, 'files')
    if (names.length > MOST_FILES) throw new HttpError(400, `files must be at most ${MOST_FILES}`)
    const pattern = text(given, 'pattern')
    const value = optionalText(given, 'newValue') ?? ''
    const results: object[] = []
    for (const name of names) results.push(await replace(hosted, name, pattern, value))
    sendJson(response, 200, results)
  },
  'GET /files/find': async ({ hosted, response, url }) => {
    const root = pathIn(hosted, url)
    await describe(hosted, root)
    const words = ['--no-messages', '--devices=skip', '-rnHIFZ', '-e', query(url, 'pattern'), '--', root]
    sendJson(response, 200, matches(hosted, await search(hosted, ['grep', ...words])))
  },
  'GET /files/search': async ({ hosted, response, url }) => {
    const root = pathIn(hosted, url)
    await describe(hosted, root)
    const words = ['-mindepth', '1', '-name', query(url, 'pattern'), '-print0']
    const found = await search(hosted, ['find', root, ...words])
    const files = found
      .split('\0')
      .slice(0, -1)
      .map((file) => hosted.view.shown(file))
    sendJson(response, 200, { files })
  },
}

function shown(entry: Entry) {
  const isDir = entry.type === 'FILE_TYPE_DIRECTORY'
  return {
    name: entry.name,
    path: entry.path,
    size: Number(entry.size),
    mode: entry.permissions,
    modTime: entry.modifiedTime.replace('T', ' ').replace('Z', ' +0000 UTC'),
    modifiedAt: entry.modifiedTime,
    isDir,
    owner: entry.owner,
    group: entry.group,
    permissions: (entry.mode & 0o777).toString(8).padStart(4, '0'),
  }
}

function pathIn({ view }: Hosted, url: URL, name = 'path'): string {
  return view.resolve(query(url, name))
}

function modeIn({ searchParams }: URL): string | undefined {
  const mode = searchParams.get('mode') || undefined
  if (mode === undefined || /^[0-7]{1,5}$/.test(mode)) return mode
  throw new HttpError(400, 'mode must be octal, like 755')
}

/** Runs a program that changes a file, with the rights of the sandbox. */
async function change(hosted: Hosted, [program = '', value = '']: string[], file: string): Promise<void> {
  const { exitCode, stderr } = await runProgram(hosted, [program, '--', value, file])
  if (exitCode !== 0) throw new HttpError(/not permitted/.test(stderr) ? 403 : 400, stderr.trim())
}

/** What the program prints, as far as it could read the files. Throws HttpError. */
async function search(hosted: Hosted, argv: string[]): Promise<string> {
  const output = await runProgram(hosted, argv, SEARCH)
  if (output.exitCode < 0 || output.exitCode === NOT_INSTALLED) throw new HttpError(500, output.stderr)
  return wholeOutput(output)
}

async function replace(hosted: Hosted, name: string, pattern: string, value: string): Promise<object> {
  const { files } = hosted.sandbox
  try {
    const file = hosted.view.resolve(name)
    const content = await files.read(file, { encoding: 'buffer', maxBytes: MOST_REPLACED_BYTES })
    // Byte by byte: all others stay as they are.
    const parts = Buffer.from(content).toString('latin1').split(bytesOf(pattern))
    const own = bytesOf(value)
    const count = parts.length - 1
    const length = content.length + count * (own.length - Buffer.byteLength(pattern))
    if (length > MOST_REPLACED_BYTES)
      throw new HttpError(413, `the file would be larger than ${MOST_REPLACED_BYTES} bytes`)
    if (count > 0) await files.write(file, Buffer.from(parts.join(own), 'latin1'))
    return { file: name, success: true }
  } catch (error) {
    return { file: name, success: false, error: daytonaError(error).message }
  }
}

/** The text in UTF-8, as one character for each byte. */
function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/** Lines like 'file\0number:content'. */
function matches({ view }: Hosted, result: string): object[] {
  return result.split('\n').flatMap((line) => {
    const [, file, number, content] = /^([^\0]+)\0(\d+):(.*)$/s.exec(line) ?? []
    if (file === undefined) return []
    return [{ file: view.shown(file), line: Number(number), content: content?.replace(/\r$/, '') }]
  })
}

async function receiveOne(call: Call): Promise<void> {
  const { hosted, response, url } = call
  query(url, 'path')
  const [written] = await receiveFiles(hosted, call)
  if (written === undefined) throw new HttpError(400, 'the form has no part named file')
  sendJson(response, 200, written)
}

/** A form in which `files[0].path` comes before `files[0].file`. */
async function receiveMany({ hosted, request, response }: Call): Promise<void> {
  const type = request.headers['content-type'] ?? ''
  if (!isForm(type)) throw new HttpError(400, 'the content type must be multipart/form-data')
  const paths = new Map<string, string>()
  const files: object[] = []
  const errors: string[] = []
  await receiveForm(request, type, async (field, content) => {
    const [, index, kind] = /^files\[(\d+)\]\.(path|file)$/.exec(field) ?? []
    if (index === undefined) return void content.resume()
    if (kind === 'path') return void paths.set(index, await shortText(content))
    const given = paths.get(index)
    try {
      if (given === undefined) throw new HttpError(400, `files[${index}].path must come before its file`)
      // After a failure the form goes on behind this file.
      const pieces = content.iterator({ destroyOnReturn: false })
      const { size } = await hosted.sandbox.files.write(hosted.view.resolve(given), pieces)
      files.push({ path: given, bytes: size })
    } catch (error) {
      content.resume()
      errors.push(`${given ?? field}: ${daytonaError(error).message}`)
    }
  })
  if (errors.length === 0) return sendJson(response, 200, { files })
  sendJson(response, 400, {
    ...describeError(new HttpError(400, errors.join('; ')), request),
    errors,
    files,
  })
}

async function shortText(content: Readable): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of content as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > MOST_PATH_BYTES) throw new HttpError(400, 'a path is too long')
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** Replies with a form that has a part `file` or `error` for each path. */
async function sendMany({ hosted, request, response }: Call): Promise<void> {
  const paths = listOfTexts(await readJson(request, MOST_CONTENT_BYTES), 'paths')
  if (paths.length === 0 || paths.length > MOST_FILES)
    throw new HttpError(400, `paths must be a list of 1 to ${MOST_FILES} paths`)
  const boundary = `nacre-${randomUUID()}`
  response.writeHead(200, { 'content-type': `multipart/form-data; boundary=${boundary}` })
  for (const given of paths) {
    if (response.destroyed) return
    const head = (kind: string, type: string) =>
      `--${boundary}\r\nContent-Type: ${type}\r\nContent-Disposition: form-data; name="${kind}"; ${fileNames(given)}\r\n`
    try {
      await sendPart(hosted, given, response, head('file', 'application/octet-stream'))
    } catch (error) {
      // The client sees that the file broke off.
      if (error instanceof BrokenOff) return void response.destroy()
      const text = JSON.stringify(describeError(daytonaError(error), request))
      await writePiece(response, `${head('error', 'application/json; charset=utf-8')}\r\n${text}\r\n`)
    }
  }
  response.end(`--${boundary}--\r\n`)
}

class BrokenOff extends Error {}

async function sendPart(
  { sandbox, view }: Hosted,
  given: string,
  response: Call['response'],
  head: string,
): Promise<void> {
  const { size, pieces } = await openFile(sandbox.files, view.resolve(given))
  const length = size === undefined ? '' : `Content-Length: ${size}\r\n`
  await writePiece(response, `${head}${length}\r\n`)
  try {
    for await (const piece of pieces) {
      await writePiece(response, piece)
      if (response.destroyed) return
    }
  } catch {
    throw new BrokenOff()
  }
  await writePiece(response, '\r\n')
}

/** In ASCII for old clients, and in UTF-8. */
function fileNames(file: string): string {
  // Half of a pair of surrogates cannot be encoded.
  const name = Buffer.from(file).toString()
  const plain = name.replace(/["\\]/g, '\\$&').replace(/[^ -~]/g, '_')
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `filename="${plain}"; filename*=utf-8''${encoded}`
}
