/** The public object for a session's files: checks arguments and calls the backend. */
import { onAbort, refuseAborted } from '../base/abort.js'
import { calledBy } from '../base/call-site.js'
import { AbortError } from '../base/errors.js'
import { fileWriteOptions } from '../calls/files.js'
import type {
  Encoding,
  FileCopyOptions,
  FileEvent,
  FileInfo,
  FileListOptions,
  FilePath,
  FileReadOptions,
  FileRemoveOptions,
  FileStatOptions,
  FileStreamOptions,
  FileToWrite,
  FileTransfer,
  FileTransferOptions,
  FileWatchOptions,
  FileWriteOptions,
  Output,
  Files as PublicFiles,
} from '../calls/index.js'
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

export class Files implements PublicFiles {
  readonly #backend: FilesBackend

  constructor(backend: FilesBackend) {
    this.#backend = backend
  }

  async read<E extends Encoding = 'utf8'>(path: FilePath, options?: FileReadOptions<E>): Promise<Output<E>> {
    return (await calledBy(this.read, this.#backend.read(planFileRead(path, options)))) as Output<E>
  }

  readStream(path: FilePath, options?: FileStreamOptions): ReadableStream<Uint8Array> {
    const plan = planFileStream(options)
    return byteStream(() => this.#backend.open(checkPath(path, 'path'), plan), plan.signal)
  }

  async write(
    path: FilePath,
    data: string | Uint8Array | AsyncIterable<string | Uint8Array> | ReadableStream<string | Uint8Array>,
    options?: FileWriteOptions,
  ): Promise<FileInfo> {
    return calledBy(this.write, this.#backend.write(planFileWrite(path, data, options)))
  }

  async writeMany(files: readonly FileToWrite[]): Promise<FileInfo[]> {
    const written: FileInfo[] = []
    const plans = planFileWrites(files)
    for (const plan of plans) written.push(await calledBy(this.writeMany, this.#backend.write(plan)))
    return written
  }

  async copyIn(hostPath: string | URL, path: FilePath, options?: FileTransferOptions): Promise<FileTransfer> {
    const { hostPath: from, ...limits } = planFileTransfer(hostPath, options, 'files.copyIn')
    const { bytes } = checkPath(path, 'path')
    const { copyIn } = await hostCopy()
    return calledBy(this.copyIn, copyIn(this, from, bytes, limits))
  }

  async copyOut(
    path: FilePath,
    hostPath: string | URL,
    options?: FileTransferOptions,
  ): Promise<FileTransfer> {
    const { hostPath: to, ...limits } = planFileTransfer(hostPath, options, 'files.copyOut')
    const { bytes } = checkPath(path, 'path')
    const { copyOut } = await hostCopy()
    return calledBy(this.copyOut, copyOut(this, bytes, to, limits))
  }

  async chmod(path: FilePath, mode: number): Promise<void> {
    const bits = readArgument(fileWriteOptions.mode.read, mode, 'mode')
    await calledBy(this.chmod, this.#backend.chmod({ path: checkPath(path, 'path'), mode: bits }))
  }

  async list(path: FilePath = '.', options?: FileListOptions): Promise<FileInfo[]> {
    const plan = planFileList(path, options)
    return calledBy(this.list, this.#backend.list(plan.path, plan.depth))
  }

  async stat(path: FilePath, options?: FileStatOptions): Promise<FileInfo | null> {
    const plan = planFileStat(path, options)
    return calledBy(this.stat, this.#backend.stat(plan.path, plan.follow))
  }

  async exists(path: FilePath): Promise<boolean> {
    return (await this.stat(path)) !== null
  }

  async mkdir(path: FilePath): Promise<void> {
    await calledBy(this.mkdir, this.#backend.mkdir({ path: checkPath(path, 'path') }))
  }

  async rename(from: FilePath, to: FilePath): Promise<void> {
    await calledBy(this.rename, this.#backend.rename(endsOf(from, to)))
  }

  async copy(from: FilePath, to: FilePath, options?: FileCopyOptions): Promise<void> {
    const { recursive } = planOf(fileCalls.copy, options)
    await calledBy(this.copy, this.#backend.copy({ ...endsOf(from, to), recursive }))
  }

  async remove(path: FilePath, options?: FileRemoveOptions): Promise<void> {
    const { recursive } = planOf(fileCalls.remove, options)
    await calledBy(this.remove, this.#backend.remove({ path: checkPath(path, 'path'), recursive }))
  }

  watch(path: FilePath = '.', options?: FileWatchOptions): AsyncIterableIterator<FileEvent, undefined> {
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
function byteStream(open: () => FileSource, signal: AbortSignal | undefined): ReadableStream<Uint8Array> {
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
