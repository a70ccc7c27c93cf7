/** Reads files: as a whole, and in pieces. */
import { SandboxError } from '../../../base/errors.js'
import type { FileReadPlan, FileStreamPlan } from '../../../requests/files.js'
import type { FileSource } from '../../../sandbox/backend.js'
import type { CheckedPath } from '../../../schema/paths.js'
import { abortable, type Engine } from '../engine.js'

/** The meaning of paths in a file call. */
export interface FileScope {
  engine: Engine
  /** The session whose rules apply. */
  sessionId: string
  /** Where relative paths start, and which no path leaves. Null: the session's directory, without that limit. */
  root: string | null
}

/** For errors. */
const SUBJECT = 'the read'
/** Bytes of the first piece. Most files are smaller, so one call reads them. */
const FIRST_BYTES = 256 * 1024
/** Bytes of every other piece. */
const PIECE_BYTES = 1024 * 1024

/** Reads a file to its end, even if it grows meanwhile, but at most `maxBytes`. */
export async function readWhole(scope: FileScope, plan: FileReadPlan): Promise<Buffer> {
  const { path, maxBytes, signal } = plan
  const source = new Source(scope, path, { start: 0, end: maxBytes + 1, signal }, maxBytes)
  try {
    const first = (await source.read()) ?? Buffer.alloc(0)
    if (source.isOver) return within(first, plan)
    let content = Buffer.allocUnsafe(Math.min(Math.max(source.size, 2 * first.length), maxBytes + 1))
    let length = first.copy(content)
    for (let piece = await source.read(); piece !== undefined; piece = await source.read()) {
      if (length + piece.length > content.length) {
        const larger = Buffer.allocUnsafe(Math.min(2 * content.length + piece.length, maxBytes + 1))
        content.copy(larger, 0, 0, length)
        content = larger
      }
      length += piece.copy(content, length)
    }
    return within(content.subarray(0, length), plan)
  } finally {
    source.close()
  }
}

function within(content: Buffer, { path, maxBytes }: FileReadPlan): Buffer {
  if (content.length <= maxBytes) return content
  const message = `'${path.shown}' has more bytes than maxBytes allows (${maxBytes})`
  throw new SandboxError('FILE_TOO_LARGE', message, { path: path.shown })
}

/** A range of a file, in pieces. */
export class Source implements FileSource {
  readonly #scope: FileScope
  readonly #path: CheckedPath
  readonly #plan: FileStreamPlan
  readonly #maxSize: number | undefined
  #position: number
  #handle: number | undefined
  #isOpen = false
  #isClosed = false
  /** Bytes of the file when it was opened. */
  size = 0
  version: string | undefined
  /** True once everything has been read. */
  isOver = false

  constructor(scope: FileScope, path: CheckedPath, plan: FileStreamPlan, maxSize?: number) {
    this.#scope = scope
    this.#path = path
    this.#plan = plan
    this.#maxSize = maxSize
    this.#position = plan.start
  }

  async read(): Promise<Buffer | undefined> {
    if (this.isOver) return undefined
    const wanted = Math.min(this.#plan.end - this.#position, this.#isOpen ? PIECE_BYTES : FIRST_BYTES)
    const data = await this.#next(wanted)
    this.#position += data.length
    this.isOver = data.length < wanted || this.#position >= this.#plan.end
    return data.length === 0 ? undefined : data
  }

  close(): void {
    this.#isClosed = true
    this.isOver = true
    const handle = this.#handle
    this.#handle = undefined
    if (handle !== undefined) this.#scope.engine.release((native) => native.fileClose(handle))
  }

  async #next(length: number): Promise<Buffer> {
    const position = this.#position
    if (!this.#isOpen) return await this.#open(position, length)
    const handle = this.#handle
    if (handle === undefined) return Buffer.alloc(0)
    return await abortable(this.#scope.engine, SUBJECT, this.#plan.signal, (native, id) =>
      native.fileReadAt(id, handle, position, length),
    )
  }

  /** Reads the first piece. */
  async #open(position: number, length: number): Promise<Buffer> {
    const { engine, sessionId, root } = this.#scope
    const { bytes: path } = this.#path
    const request = { path, position, length, maxSize: this.#maxSize, root: root ?? undefined }
    const { file, data, handle } = await abortable(engine, SUBJECT, this.#plan.signal, (native, id) =>
      native.fileRead(id, sessionId, request),
    )
    this.#isOpen = true
    this.#handle = handle
    this.size = file.size
    this.version = file.version
    if (this.#isClosed) this.close()
    return data
  }
}
