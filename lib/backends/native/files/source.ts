/** Reads files: as a whole, and in pieces. */
import { onAbort, refuseAborted } from '../../../base/abort.js'
import { AbortError, engineError, SandboxError } from '../../../base/errors.js'
import type { NativeEvent } from '../../../boundary/index.js'
import type { FileReadPlan, FileStreamPlan } from '../../../requests/files.js'
import type { FileSource } from '../../../sandbox/backend.js'
import type { CheckedPath } from '../../../schema/paths.js'
import { type Engine, failureOf, type PendingCall, type Send } from '../engine.js'
import type { FileScope } from './scope.js'

/** Bytes of the first piece. Most files are smaller, so one call reads them. */
const FIRST_BYTES = 256 * 1024
/** Bytes of every other piece. */
const PIECE_BYTES = 1024 * 1024

/** Reads a file to its end, even if it grows meanwhile, but at most `maxBytes`. */
export async function readWhole(engine: Engine, scope: FileScope, plan: FileReadPlan): Promise<Buffer> {
  const { path, maxBytes, signal } = plan
  const source = new Source(engine, scope, path, { start: 0, end: maxBytes + 1, signal }, maxBytes)
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
  readonly #engine: Engine
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

  constructor(engine: Engine, scope: FileScope, path: CheckedPath, plan: FileStreamPlan, maxSize?: number) {
    this.#engine = engine
    this.#scope = scope
    this.#path = path
    this.#plan = plan
    this.#maxSize = maxSize
    this.#position = plan.start
  }

  async read(): Promise<Buffer | undefined> {
    if (this.isOver) return undefined
    const wanted = Math.min(this.#plan.end - this.#position, this.#isOpen ? PIECE_BYTES : FIRST_BYTES)
    const { data = Buffer.alloc(0) } = await this.#next(wanted)
    this.#position += data.length
    this.isOver = data.length < wanted || this.#position >= this.#plan.end
    return data.length === 0 ? undefined : data
  }

  close(): void {
    this.#isClosed = true
    this.isOver = true
    const handle = this.#handle
    this.#handle = undefined
    if (handle !== undefined) this.#engine.release((native) => native.fileClose(handle))
  }

  async #next(length: number): Promise<NativeEvent> {
    const position = this.#position
    const handle = this.#handle
    if (this.#isOpen && handle === undefined) return { id: 0, kind: 'done' }
    const { sessionId, root } = this.#scope
    const { bytes: path } = this.#path
    const request = { path, position, length, maxSize: this.#maxSize, root: root ?? undefined }
    const event = await unlessAbandoned(this.#engine, this.#plan.signal, (native, id) =>
      handle === undefined
        ? native.fileRead(id, sessionId, request)
        : native.fileReadAt(id, handle, position, length),
    )
    if (!this.#isOpen) {
      if (event.file === undefined)
        throw engineError('ENGINE_ERROR', 'the engine read a file but did not describe it')
      this.#isOpen = true
      this.#handle = event.handle
      this.size = event.file.size
      this.version = event.file.version
      if (this.#isClosed) this.close()
    }
    return event
  }
}

/** Makes a call that an abort gives up. */
async function unlessAbandoned(
  engine: Engine,
  signal: AbortSignal | undefined,
  send: Send,
): Promise<NativeEvent> {
  refuseAborted(signal, 'the read')
  let call: PendingCall | undefined
  const ignore = onAbort(signal, () => call?.native.abandon(call.id))
  try {
    const event = await new Promise<NativeEvent>((resolve) => {
      call = engine.begin(send, resolve)
    })
    if (signal?.aborted) {
      const { handle } = event
      if (handle !== undefined) engine.release((native) => native.fileClose(handle))
      throw new AbortError(signal.reason, undefined, 'the read')
    }
    if (event.kind === 'error') throw failureOf(event)
    return event
  } finally {
    ignore()
  }
}
