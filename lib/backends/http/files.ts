/** Files of a session on the server. */

import { toBase64 } from '../../base/base64.js'
import { SandboxError } from '../../base/errors.js'
import { PieceDecoder } from '../../base/utf8.js'
import type { Encoding, FileEvent, FileInfo, Output } from '../../calls/index.js'
import { listFiles, stat, writeFile } from '../../protocol/endpoints.js'
import { fileCalls } from '../../protocol/simple-calls.js'
import type { FileReadPlan, FileStreamPlan, FileWatchPlan, FileWritePlan } from '../../requests/files.js'
import type { FileSource, FilesBackend } from '../../sandbox/backend.js'
import { type CheckedPath, encodePath, isText } from '../../schema/paths.js'
import { Bytes } from './collected.js'
import type { Connection } from './connection.js'
import { Download } from './download.js'
import { FileWatch } from './file-watch.js'
import type { Request } from './request.js'
import { withCalls } from './simple-calls.js'
import { chunksOf, Upload } from './upload-body.js'
import { PART_BYTES, uploadInParts } from './upload-parts.js'

export class HttpFiles extends withCalls<typeof fileCalls, 'sessionId'>(fileCalls) implements FilesBackend {
  readonly #params: { sessionId: string }

  constructor(connection: Connection, sessionId: string) {
    super(connection, () => ({ sessionId }))
    this.#params = { sessionId }
  }

  async read({ path, encoding, maxBytes, signal }: FileReadPlan): Promise<Output<Encoding>> {
    const query = { ...queryOf(path), maxBytes }
    const request = this.#content({ query, signal, subject: 'the read' })
    const body = await Download.begin(this.connection, request)
    try {
      if (body.announced > maxBytes) throw tooLarge(path, maxBytes)
      const collected = encoding === 'buffer' ? new Bytes(body.announced) : new Text()
      let length = 0
      for (let piece = await body.read(); piece !== undefined; piece = await body.read()) {
        length += piece.length
        if (length > maxBytes) throw tooLarge(path, maxBytes)
        collected.add(piece)
      }
      return collected.whole()
    } finally {
      body.close()
    }
  }

  open(path: CheckedPath, { start, end, signal }: FileStreamPlan): FileSource {
    const request = this.#content({ query: queryOf(path), signal, subject: 'the read' })
    return new Source(() => Download.begin(this.connection, request, { start, end }))
  }

  async write(plan: FileWritePlan): Promise<FileInfo> {
    const { path, data, mode, append, signal } = plan
    // One request could be cut, and could not be repeated.
    const isLong = !(data instanceof Uint8Array) || append || data.length > PART_BYTES
    if (this.connection.resumes && isLong) {
      const target = { path: encodePath(path), mode, append: append || undefined }
      const chunks = chunksOf(data instanceof Uint8Array ? [data] : data)
      return await uploadInParts(this.connection, this.#params.sessionId, target, chunks, signal)
    }
    const query = { ...queryOf(path), mode, append: append || undefined }
    const request = { params: this.#params, query, signal, subject: 'the write' }
    if (data instanceof Uint8Array) {
      const whole = { ...request, content: data, isIdempotent: !append }
      return await this.connection.call(writeFile, whole)
    }
    const upload = new Upload(chunksOf(data))
    return await upload.sent(this.connection.call(writeFile, { ...request, content: upload.content }))
  }

  async list(path: CheckedPath, depth: number): Promise<FileInfo[]> {
    const levels = depth === 1 ? {} : { recursive: true, maxDepth: depth }
    const query = { ...queryOf(path), ...levels }
    return await this.connection.call(listFiles, { params: this.#params, query })
  }

  async stat(path: CheckedPath, follow = true): Promise<FileInfo | null> {
    const query = { ...queryOf(path), ...(!follow && { followSymlinks: false }) }
    return await this.connection.call(stat, { params: this.#params, query })
  }

  watch(
    path: CheckedPath,
    { recursive, signal }: FileWatchPlan,
  ): AsyncIterableIterator<FileEvent, undefined> {
    const query = { ...queryOf(path), recursive }
    const request = { method: 'GET', path: this.#path('watch'), query } as const
    return new FileWatch(this.connection, path.shown, request, signal)
  }

  #content(request: Omit<Request, 'path'>): Request {
    return { method: 'GET', path: this.#path('content'), ...request }
  }

  #path(what: string): string {
    return `/v1/sessions/${this.#params.sessionId}/files/${what}`
  }
}

/** What a server sends, from the first read on. */
export class Source implements FileSource {
  readonly size = undefined
  readonly version = undefined
  readonly isOver = undefined
  readonly #request: () => Promise<Download>
  #body: Promise<Download> | undefined

  constructor(request: () => Promise<Download>) {
    this.#request = request
  }

  async read(): Promise<Uint8Array | undefined> {
    this.#body ??= this.#request()
    return (await this.#body).read()
  }

  close(): void {
    this.#body?.then(
      (body) => body.close(),
      () => {},
    )
  }
}

class Text {
  readonly #decoder = new PieceDecoder()
  #text = ''

  add(piece: Uint8Array): void {
    this.#text += this.#decoder.write(piece)
  }

  whole(): string {
    return this.#text + this.#decoder.end()
  }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

function queryOf(path: CheckedPath): Record<string, string> {
  return isText(path) ? { path: decoder.decode(path.bytes) } : { pathBase64: toBase64(path.bytes) }
}

function tooLarge({ shown }: CheckedPath, maxBytes: number): SandboxError {
  const message = `'${shown}' has more bytes than maxBytes allows (${maxBytes})`
  return new SandboxError('FILE_TOO_LARGE', message, { path: shown })
}
