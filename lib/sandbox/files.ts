/** The public object for a session's files: checks arguments and calls the backend. */
import { onAbort, refuseAborted } from '../base/abort.js'
import { calledBy } from '../base/call-site.js'
import { AbortError } from '../base/errors.js'
import { fileWriteOptions } from '../calls/files.js'
import type * as api from '../calls/index.js'
import { planOf } from '../protocol/endpoint.js'
import { fileCalls } from '../protocol/simple-calls.js'
import {
  planFileList,
  planFileRead,
  planFileStat,
  planFileStream,
  planFileTransfer,
  planFileWatch,
  planFileWrite,
  planFileWrites,
} from '../requests/files.js'
import { checkPath } from '../schema/paths.js'
import { readArgument } from '../schema/read.js'
import type { FileSource, FilesBackend } from './backend.js'

export class Files implements api.Files {
  readonly #backend: FilesBackend

  constructor(backend: FilesBackend) {
    this.#backend = backend
  }

  async read<E extends api.Encoding = 'utf8'>(
    path: api.FilePath,
    options?: api.FileReadOptions<E>,
  ): Promise<api.Output<E>> {
    return (await calledBy(this.read, this.#backend.read(planFileRead(path, options)))) as api.Output<E>
  }

  readStream(path: api.FilePath, options?: api.FileStreamOptions): ReadableStream<Uint8Array> {
    const plan = planFileStream(options)
    return byteStream(() => this.#backend.open(checkPath(path, 'path'), plan), plan.signal)
  }

  async write(
    path: api.FilePath,
    data: string | Uint8Array | AsyncIterable<string | Uint8Array> | ReadableStream<string | Uint8Array>,
    options?: api.FileWriteOptions,
  ): Promise<api.FileInfo> {
    return calledBy(this.write, this.#backend.write(planFileWrite(path, data, options)))
  }

  async writeMany(files: readonly api.FileToWrite[]): Promise<api.FileInfo[]> {
    const written: api.FileInfo[] = []
    const plans = planFileWrites(files)
    for (const plan of plans) written.push(await calledBy(this.writeMany, this.#backend.write(plan)))
    return written
  }

  async copyIn(
    hostPath: string | URL,
    path: api.FilePath,
    options?: api.FileTransferOptions,
  ): Promise<api.FileTransfer> {
    const { hostPath: from, ...limits } = planFileTransfer(hostPath, options, 'files.copyIn')
    const { bytes } = checkPath(path, 'path')
    const { copyIn } = await hostCopy()
    return calledBy(this.copyIn, copyIn(this, from, bytes, limits))
  }

  async copyOut(
    path: api.FilePath,
    hostPath: string | URL,
    options?: api.FileTransferOptions,
  ): Promise<api.FileTransfer> {
    const { hostPath: to, ...limits } = planFileTransfer(hostPath, options, 'files.copyOut')
    const { bytes } = checkPath(path, 'path')
    const { copyOut } = await hostCopy()
    return calledBy(this.copyOut, copyOut(this, bytes, to, limits))
  }

  async chmod(path: api.FilePath, mode: number): Promise<void> {
    const bits = readArgument(fileWriteOptions.mode.read, mode, 'mode')
    await calledBy(this.chmod, this.#backend.chmod({ path: checkPath(path, 'path'), mode: bits }))
  }

  async list(path: api.FilePath = '.', options?: api.FileListOptions): Promise<api.FileInfo[]> {
    const plan = planFileList(path, options)
    return calledBy(this.list, this.#backend.list(plan.path, plan.depth))
  }

  async stat(path: api.FilePath, options?: api.FileStatOptions): Promise<api.FileInfo | null> {
    const plan = planFileStat(path, options)
    return calledBy(this.stat, this.#backend.stat(plan.path, plan.follow))
  }

  async exists(path: api.FilePath): Promise<boolean> {
    return (await this.stat(path)) !== null
  }

  async mkdir(path: api.FilePath): Promise<void> {
    await calledBy(this.mkdir, this.#backend.mkdir({ path: checkPath(path, 'path') }))
  }

  async rename(from: api.FilePath, to: api.FilePath): Promise<void> {
    await calledBy(this.rename, this.#backend.rename(endsOf(from, to)))
  }

  async copy(from: api.FilePath, to: api.FilePath, options?: api.FileCopyOptions): Promise<void> {
    const { recursive } = planOf(fileCalls.copy, options)
    await calledBy(this.copy, this.#backend.copy({ ...endsOf(from, to), recursive }))
  }

  async remove(path: api.FilePath, options?: api.FileRemoveOptions): Promise<void> {
    const { recursive } = planOf(fileCalls.remove, options)
    await calledBy(this.remove, this.#backend.remove({ path: checkPath(path, 'path'), recursive }))
  }

  watch(
    path: api.FilePath = '.',
    options?: api.FileWatchOptions,
  ): AsyncIterableIterator<api.FileEvent, undefined> {
    const plan = planFileWatch(options)
    return this.#backend.watch(checkPath(path, 'path'), plan)
  }
}

function endsOf(from: unknown, to: unknown) {
  return { from: checkPath(from, 'from'), to: checkPath(to, 'to') }
}

/** Loaded on first use: browsers and workers, which have no files, load this module. */
function hostCopy() {
  return globalThis.process?.getBuiltinModule === undefined
    ? import('./no-host-copy.js')
    : import('#host-copy')
}

/** A source as a stream, which opens the source at its first read. */
export function byteStream(
  open: () => FileSource,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  let source: FileSource | undefined
  /** Set by the first read: a stream that is never read must leave no listener. */
  let ignore: (() => void) | undefined
  const end = () => {
    ignore?.()
    source?.close()
  }
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          refuseAborted(signal, 'the read')
          ignore ??= onAbort(signal, () => {
            end()
            controller.error(new AbortError(signal?.reason, undefined, 'the read'))
          })
          source ??= open()
          const piece = await source.read()
          if (signal?.aborted) return
          if (piece !== undefined) return controller.enqueue(piece)
          end()
          controller.close()
        } catch (error) {
          end()
          if (signal?.aborted) controller.error(new AbortError(signal.reason, undefined, 'the read'))
          else controller.error(error)
        }
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  )
}
