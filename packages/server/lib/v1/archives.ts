/**
 * The sandbox as an archive: written to a file of the server and downloaded, or uploaded to a server whose sandbox nothing has used.
 */

import { constants } from 'node:fs'
import { type FileHandle, open, readdir, stat, unlink } from 'node:fs/promises'
import path from 'node:path'
import type { ServerArchive } from 'nacre'
import { aborts, crypto, engineError, kinds } from 'nacre/internal'
import { type backends, endpoints, type NativeBackend, protocol, tables } from 'nacre/internal/server'
import { described } from '../document.js'
import { Refusal } from '../failure.js'
import { queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { fileReply } from './file-content.js'
import { addSimpleCalls } from './simple-calls.js'

/** Bytes of an archive beyond those of its files: names, states and digests. */
const MOST_REST_BYTES = 1024 ** 3
const SUFFIX = '.nacre'

/** `backend`: the sandbox, if it is in this process. */
export function addArchives(define: Define, backend: NativeBackend | undefined): void {
  const archives = new StoredArchives(backend)
  addSimpleCalls(define, protocol.archiveCalls, () => archives)
  define({
    method: 'GET',
    path: '/v1/archives/{archiveId}',
    summary:
      'Returns an archive. `Range` selects one range of bytes. With `If-Range`, the range applies only with that `ETag`.',
    reply: 'bytes',
    errors: ['FILE_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { archiveId }, header, method, signal }) {
      const asked = { range: header('range'), ifRange: header('if-range'), method }
      const place = kinds.checkPath(await archives.place(archiveId), 'archiveId')
      return fileReply(archives, place, asked, signal)
    },
  })
  const { onDifference } = tables.archiveOptions
  define({
    ...endpoints.resume,
    // Its response would begin before the body has arrived.
    waits: false,
    summary: 'Goes on with an archive, in a sandbox that nothing has used.',
    query: shape({ ...described({ onDifference }), maxBytes: queryNumber }),
    upload: true,
    errors: [
      ...['ARCHIVE_REJECTED', 'SANDBOX_IN_USE', 'WORKSPACE_CONFLICT', 'WORKSPACE_NOT_ENABLED'],
      ...['ISOLATION_UNSUPPORTED', 'STATE_DIR_UNAVAILABLE', 'NO_SPACE', 'NOT_FOUND'],
    ],
    async handle({ query, upload, signal }) {
      const options = kinds.readWithDefaults(tables.archiveOptions, query, 'the query')
      return archives.resume(upload ?? (async function* () {})(), options, signal)
    },
  })
}

class StoredArchives implements protocol.CallsOf<typeof protocol.archiveCalls> {
  readonly #backend: NativeBackend | undefined
  #directory: Promise<string> | undefined

  constructor(backend: NativeBackend | undefined) {
    this.#backend = backend
  }

  async suspend(plan: Parameters<NativeBackend['suspend']>[1]) {
    const archive = crypto().randomUUID()
    const suspended = await this.#local().suspend(await this.place(archive), plan)
    return { archive, ...suspended }
  }

  async list(): Promise<ServerArchive[]> {
    const directory = await this.#open()
    const names = (await readdir(directory)).filter((name) => name.endsWith(SUFFIX))
    const found = names.map(async (name) => {
      // It may have been deleted meanwhile.
      const file = await stat(path.join(directory, name)).catch(() => undefined)
      return file && { id: name.slice(0, -SUFFIX.length), bytes: file.size, createdAt: file.mtime }
    })
    const all = (await Promise.all(found)).filter((archive) => archive !== undefined)
    return all.sort((one, other) => one.createdAt.getTime() - other.createdAt.getTime())
  }

  async delete({ archiveId }: { archiveId: string }): Promise<void> {
    await unlink(await this.place(archiveId)).catch(() => {
      throw unknown(archiveId)
    })
  }

  async resume(
    upload: AsyncIterable<Uint8Array>,
    options: Parameters<NativeBackend['resume']>[1],
    signal: AbortSignal,
  ) {
    const backend = this.#local()
    const place = path.join(await this.#open(), `.${crypto().randomUUID()}`)
    const flags = constants.O_CREAT | constants.O_EXCL | constants.O_RDWR
    const file = await open(place, flags, 0o600).catch(withoutSpace)
    try {
      // Nothing is left of it, however this process ends.
      await unlink(place)
      let length = 0
      for await (const piece of upload) {
        aborts.refuseAborted(signal, 'the upload')
        length += piece.length
        if (length > options.maxBytes + MOST_REST_BYTES)
          throw engineError(
            'ARCHIVE_REJECTED',
            'the archive cannot be used: it is larger than maxBytes allows',
          )
        await written(file, piece)
      }
      return await backend.resume(`/proc/self/fd/${file.fd}`, options)
    } finally {
      await file.close()
    }
  }

  /** The path of an archive with this id. */
  async place(id: string): Promise<string> {
    return path.join(await this.#open(), `${kinds.readId(id)}${SUFFIX}`)
  }

  /** As of a session, for downloads. */
  open({ shown }: kinds.CheckedPath, { start, end }: { start: number; end: number }): backends.FileSource {
    return new FileOnDisk(shown, start, end)
  }

  async stat({ shown }: kinds.CheckedPath): Promise<{ size: number } | null> {
    return await stat(shown).catch(() => null)
  }

  #open(): Promise<string> {
    this.#directory ??= this.#local().archives()
    return this.#directory
  }

  #local(): NativeBackend {
    if (this.#backend === undefined)
      throw new Refusal('NOT_FOUND', 'the sandbox of this server is in another process: ask the server there')
    return this.#backend
  }
}

/** Bytes of a piece. */
const PIECE_BYTES = 1024 * 1024

/** A range of an archive, which nobody changes. */
class FileOnDisk implements backends.FileSource {
  readonly isOver = undefined
  readonly #path: string
  readonly #end: number
  #position: number
  #file: Promise<FileHandle> | undefined
  #isClosed = false
  size: number | undefined
  version: string | undefined

  constructor(path: string, start: number, end: number) {
    this.#path = path
    this.#position = start
    this.#end = end
  }

  async read(): Promise<Uint8Array | undefined> {
    if (this.#isClosed) return undefined
    this.#file ??= this.#open()
    const file = await this.#file
    const length = Math.min(PIECE_BYTES, this.#end - this.#position)
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(length), 0, length, this.#position)
    this.#position += bytesRead
    if (bytesRead > 0) return buffer.subarray(0, bytesRead)
    this.close()
    return undefined
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#file?.then((file) => file.close()).catch(() => {})
  }

  async #open(): Promise<FileHandle> {
    const { O_RDONLY, O_NOFOLLOW } = constants
    const file = await open(this.#path, O_RDONLY | O_NOFOLLOW).catch(() => {
      throw unknown(path.basename(this.#path, SUFFIX))
    })
    const { size, ino, mtimeMs } = await file.stat()
    this.size = size
    this.version = `${ino.toString(36)}-${mtimeMs.toString(36)}`
    return file
  }
}

function unknown(id: string): Error {
  return engineError('FILE_NOT_FOUND', `there is no archive '${id}': GET /v1/archives lists them`)
}

/** Writes all of it: a write may take a part. */
async function written(file: FileHandle, piece: Uint8Array): Promise<void> {
  for (let start = 0; start < piece.length; ) {
    const { bytesWritten } = await file.write(piece, start).catch(withoutSpace)
    start += bytesWritten
  }
}

/** Throws what writing has failed with. */
function withoutSpace(error: NodeJS.ErrnoException): never {
  if (error.code !== 'ENOSPC' && error.code !== 'EDQUOT') throw error
  throw engineError('NO_SPACE', 'the disk of `stateDir` has no space for the archive. Nothing of it is kept')
}
