/** Writes files: as a whole, or in pieces as a source produces them. */
import { abortable, refuseAborted } from '../../../base/abort.js'
import type { FileInfo } from '../../../calls/index.js'
import type { FileWritePlan } from '../../../requests/files.js'
import { inputBytes } from '../../../schema/command.js'
import { readArgument } from '../../../schema/read.js'
import { type Engine, returned } from '../engine.js'
import { infoOf } from './info.js'
import type { FileScope } from './source.js'

/** For errors. */
const SUBJECT = 'the write'
/** Bytes of one piece. Smaller chunks are collected, since nothing is visible before the end anyway. */
const PIECE_BYTES = 1024 * 1024

export async function writeFile(
  { engine, sessionId, root }: FileScope,
  plan: FileWritePlan,
  attributes?: Record<string, string>,
): Promise<FileInfo> {
  const { data, signal, mode, append } = plan
  const request = { path: plan.path.bytes, mode, append, attributes, root: root ?? undefined }
  if (data instanceof Uint8Array && data.length <= PIECE_BYTES)
    return infoOf(returned(await engine.call((native, id) => native.fileWrite(id, sessionId, request, data))))
  // Opened before anything is created, since a locked stream throws.
  const source = (data instanceof Uint8Array ? whole(data) : data)[Symbol.asyncIterator]()
  try {
    const handle = returned(await engine.call((native, id) => native.fileWriteOpen(id, sessionId, request)))
    try {
      await transfer(engine, handle, source, signal)
      return infoOf(returned(await engine.call((native, id) => native.fileCommit(id, handle))))
    } catch (error) {
      // Resolves once the old state is restored. A session that has ended restores it itself.
      await engine.call((native, id) => native.fileRevert(id, handle)).catch(() => {})
      throw error
    } finally {
      engine.release((native) => native.fileClose(handle))
    }
  } catch (error) {
    // Not awaited: a generator may be stuck in its own await forever.
    Promise.resolve(source.return?.()).catch(() => {})
    throw error
  }
}

/** Transfers the source. The next piece is collected while the previous piece is written. */
async function transfer(
  engine: Engine,
  handle: number,
  source: AsyncIterator<unknown>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const collected = Buffer.allocUnsafe(PIECE_BYTES)
  let length = 0
  let written: Promise<unknown> = Promise.resolve()
  const flush = async () => {
    await written
    refuseAborted(signal, SUBJECT)
    // The call copies the bytes before it returns.
    const piece = collected.subarray(0, length)
    written = engine.call((native, id) => native.fileWritePiece(id, handle, piece))
    written.catch(() => {})
    length = 0
  }
  try {
    for (;;) {
      refuseAborted(signal, SUBJECT)
      const { done, value } = await abortable(source.next(), signal, SUBJECT)
      if (done) break
      const chunk = readArgument(inputBytes, value, 'data')
      for (let start = 0; start < chunk.length; ) {
        const part = chunk.subarray(start, start + PIECE_BYTES - length)
        collected.set(part, length)
        length += part.length
        start += part.length
        if (length === PIECE_BYTES) await flush()
      }
    }
    if (length > 0) await flush()
    refuseAborted(signal, SUBJECT)
  } finally {
    // Never revert while a piece is being written.
    await written
  }
}

async function* whole(data: Uint8Array): AsyncGenerator<Uint8Array> {
  yield data
}
