/**
 * Copies files between this machine and a sandbox.
 *
 * Both ends are hostile: programs may change the directories of this machine during the copy, and a server may list any names.
 * So each directory is opened once, and what is in it is named from there (`/proc/self/fd`). Only the path that the caller has
 * named may be a symlink, or have one in it; all others are left out, and so are FIFOs and devices.
 */
import type { FileHandle } from 'node:fs/promises'
import { refuseAborted } from '../base/abort.js'
import { crypto, fs, path } from '../base/builtin.js'
import { makeDirectories } from '../base/directories.js'
import { invalidOption, SandboxError } from '../base/errors.js'
import type { FileInfo, FilePath, Files, FileTransfer } from '../calls/index.js'

const PIECE_BYTES = 256 * 1024
const MOST_ENTRIES = 1_000_000
/** No path of Linux is longer; a server could list directories without end. */
const MOST_PATH_BYTES = 4096
/** Each level has an open directory. */
const MOST_LEVELS = 500
const MOST_SKIPPED = 1000
const SLASH = 0x2f

const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_DIRECTORY = 0 } = fs.constants
/** Other systems name a file only by its path, whose directories a program could replace meanwhile. */
const FDS = '/proc/self/fd'
const hasFds = process.platform === 'linux' && fs.existsSync(FDS)

export interface CopyLimits {
  maxBytes: number
  signal: AbortSignal | undefined
}

type Target = Pick<Files, 'chmod' | 'list' | 'mkdir' | 'readStream' | 'stat' | 'write'>

/** What is to be copied from a directory. `content` is undefined for a file. */
interface Entry {
  name: Buffer
  /** In the sandbox; of a copy from there. */
  original?: { file: FileInfo; path: Buffer }
  content?: Entry[]
}

/** Copies a file or a directory of this machine into the sandbox. */
export async function copyIn(
  files: Target,
  from: string,
  to: FilePath,
  limits: CopyLimits,
): Promise<FileTransfer> {
  const copy = new Copy(files, limits)
  const target = Buffer.from(to)
  const found = await fs.promises.stat(from)
  if (!found.isDirectory()) {
    const isCopied = await copy.send(Buffer.from(from), target, 0)
    if (isCopied) return copy.done
    throw invalidOption(`hostPath must be a file or a directory, not '${from}'`)
  }
  await using directory = await HostDirectory.open(Buffer.from(from), Buffer.from(from), 0)
  // The sandbox may have this very directory: copies must not become originals.
  const entries = await copy.listHost(directory)
  await copy.sendAll(entries, directory, target, found.mode)
  return copy.done
}

/** Copies a file or a directory of the sandbox to this machine. */
export async function copyOut(
  files: Target,
  from: FilePath,
  to: string,
  limits: CopyLimits,
): Promise<FileTransfer> {
  const copy = new Copy(files, limits)
  const shown = String(Buffer.from(from))
  const found = await files.stat(from)
  if (found === null)
    throw new SandboxError('FILE_NOT_FOUND', `'${shown}' does not exist in the sandbox`, { path: shown })
  if (found.type === 'directory') {
    const entries = await copy.listSandbox(Buffer.from(from), Buffer.from(to))
    const isNew = !fs.existsSync(to)
    if (!isNew && !isHostDirectory(to)) throw inTheWay('NOT_A_DIRECTORY', to)
    makeDirectories(to, 0o777)
    await using directory = await HostDirectory.open(Buffer.from(to), Buffer.from(to), 0)
    await copy.receiveAll(entries, directory)
    if (isNew) await directory.chmod(found.mode & 0o777)
    return copy.done
  }
  if (isHostDirectory(to)) throw inTheWay('IS_A_DIRECTORY', to)
  const parent = Buffer.from(path.dirname(path.resolve(to)))
  makeDirectories(String(parent), 0o777)
  await using directory = await HostDirectory.open(parent, parent, 0)
  await copy.receive(from, found, directory, Buffer.from(path.basename(path.resolve(to))))
  return copy.done
}

class Copy {
  readonly done: FileTransfer = { files: 0, directories: 0, bytes: 0, skipped: [] }
  readonly #files: Target
  readonly #limits: CopyLimits
  #entries = 0

  constructor(files: Target, limits: CopyLimits) {
    this.#files = files
    this.#limits = limits
  }

  /** What is in a directory of this machine, at any depth. */
  async listHost(directory: HostDirectory, level = 1): Promise<Entry[]> {
    const entries: Entry[] = []
    for (const name of await directory.names()) {
      this.#count(directory.shown, level)
      const stats = await directory.stat(name)
      if (stats.isFile()) entries.push({ name })
      else if (stats.isDirectory()) {
        await using inner = await directory.child(name)
        entries.push({ name, content: await this.listHost(inner, level + 1) })
      } else this.#skip(joined(directory.shown, name))
    }
    return entries
  }

  /** Copies the content of a directory of this machine. A new directory gets its mode when it has its content. */
  async sendAll(entries: Entry[], directory: HostDirectory, to: Buffer, mode: number): Promise<void> {
    const found = await this.#files.stat(to)
    if (found?.type === 'file') throw inTheWay('NOT_A_DIRECTORY', String(to))
    const isNew = found === null
    if (isNew) await this.#files.mkdir(to)
    this.done.directories++
    for (const { name, content } of entries) {
      const copy = joined(to, name)
      if (content !== undefined) {
        await using inner = await directory.child(name)
        const { mode } = await inner.stat()
        await this.sendAll(content, inner, copy, mode)
      } else if (!(await directory.named(name, (file) => this.send(file, copy, O_NOFOLLOW))))
        this.#skip(joined(directory.shown, name))
    }
    if (isNew) await this.#files.chmod(to, mode & 0o777)
  }

  /** Copies a file of this machine. False if it is none. */
  async send(file: Buffer, to: Buffer, flags: number): Promise<boolean> {
    const handle = await fs.promises.open(file, O_RDONLY | O_NONBLOCK | flags)
    try {
      const stats = await handle.stat()
      if (!stats.isFile()) return false
      const { signal } = this.#limits
      await this.#files.write(to, this.#piecesOf(handle, to), {
        mode: stats.mode & 0o777,
        ...(signal && { signal }),
      })
      this.done.files++
      return true
    } finally {
      await handle.close()
    }
  }

  /** Not by a stream: those of Bun take no paths as bytes. */
  async *#piecesOf(handle: FileHandle, to: Buffer): AsyncGenerator<Uint8Array> {
    for (;;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(PIECE_BYTES))
      if (bytesRead === 0) return
      this.#add(bytesRead, to)
      yield buffer.subarray(0, bytesRead)
    }
  }

  /**
   * What is in a directory of the sandbox, at any depth. A server is not trusted: it could name a file outside of the target. So
   * a copy is named by the last part of its path alone, which cannot be `..`.
   */
  async listSandbox(from: Buffer, to: Buffer, level = 1): Promise<Entry[]> {
    if (to.length > MOST_PATH_BYTES) throw badListing(from, 'directories that are nested too deeply')
    const entries: Entry[] = []
    for (const file of await this.#files.list(from)) {
      this.#count(from, level)
      const given = Buffer.from(file.pathBytes ?? file.path)
      const name = given.subarray(given.lastIndexOf(SLASH) + 1)
      if (name.includes(0) || ['', '.', '..'].includes(name.toString('latin1')))
        throw badListing(from, `'${file.path}', which cannot be the name of a file`)
      const original = { file, path: given }
      if (file.type === 'file') entries.push({ name, original })
      else if (file.type === 'directory')
        entries.push({
          ...{ name, original },
          content: await this.listSandbox(given, joined(to, name), level + 1),
        })
      else this.#skip(given)
    }
    return entries
  }

  async receiveAll(entries: Entry[], directory: HostDirectory): Promise<void> {
    this.done.directories++
    for (const { name, original, content } of entries) {
      if (original === undefined) continue
      const { file, path } = original
      if (content === undefined) {
        await this.receive(path, file, directory, name)
        continue
      }
      const isNew = await directory.make(name)
      await using inner = await directory.child(name)
      await this.receiveAll(content, inner)
      if (isNew) await inner.chmod(file.mode & 0o777)
    }
  }

  /** Copies a file of the sandbox. It gets its name once it is complete. */
  async receive(from: FilePath, { mode }: FileInfo, to: HostDirectory, name: Buffer): Promise<void> {
    const { signal } = this.#limits
    refuseAborted(signal, 'the copy')
    // Its own name may be as long as a name can be.
    const part = Buffer.from(`.${crypto().randomUUID()}.part`)
    try {
      const handle = await to.named(part, (file) => fs.promises.open(file, 'wx', 0o600))
      try {
        for await (const piece of this.#files.readStream(from, signal && { signal })) {
          this.#add(piece.length, from)
          await handle.writeFile(piece)
        }
        await handle.chmod(mode & 0o777)
      } finally {
        await handle.close()
      }
      await to.rename(part, name)
    } catch (error) {
      await to.named(part, (file) => fs.promises.rm(file, { force: true }))
      throw error
    }
    this.done.files++
  }

  #count(directory: Uint8Array, level: number): void {
    refuseAborted(this.#limits.signal, 'the copy')
    const what = `'${Buffer.from(directory)}' has more than`
    if (++this.#entries > MOST_ENTRIES)
      throw new SandboxError('FILE_TOO_LARGE', `${what} ${MOST_ENTRIES} files; copy a part of it`)
    if (level > MOST_LEVELS)
      throw new SandboxError('FILE_TOO_LARGE', `${what} ${MOST_LEVELS} levels above it; copy a part of it`)
  }

  #add(bytes: number, file: FilePath): void {
    const { maxBytes } = this.#limits
    this.done.bytes += bytes
    if (this.done.bytes <= maxBytes) return
    const shown = String(Buffer.from(file))
    const message = `the copy has more than maxBytes (${maxBytes}), with '${shown}'`
    throw new SandboxError('FILE_TOO_LARGE', message, { path: shown })
  }

  #skip(file: Buffer): void {
    if (this.done.skipped.length < MOST_SKIPPED) this.done.skipped.push(String(file))
  }
}

/** A directory of this machine, which is open: what is in it is named from there, whatever happens to its path. */
class HostDirectory implements AsyncDisposable {
  readonly #handle: FileHandle | undefined
  readonly #path: Buffer
  /** For messages. */
  readonly shown: Buffer

  private constructor(handle: FileHandle | undefined, path: Buffer, shown: Buffer) {
    this.#handle = handle
    this.#path = path
    this.shown = shown
  }

  static async open(path: Buffer, shown: Buffer, flags: number): Promise<HostDirectory> {
    if (!hasFds) return new HostDirectory(undefined, path, shown)
    const handle = await fs.promises.open(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | flags)
    return new HostDirectory(handle, Buffer.from(`${FDS}/${handle.fd}`), shown)
  }

  /** Rejects with the error of the system if it is a symlink. */
  child(name: Buffer): Promise<HostDirectory> {
    return this.named(name, (path) => HostDirectory.open(path, joined(this.shown, name), O_NOFOLLOW))
  }

  names(): Promise<Buffer[]> {
    return this.named(Buffer.from('.'), (path) => fs.promises.readdir(path, { encoding: 'buffer' }))
  }

  /** Of the directory itself, or of an entry. */
  stat(name?: Buffer) {
    return this.named(name ?? Buffer.from('.'), (path) => fs.promises.lstat(path))
  }

  /** Creates a directory in it. False if there is one. A symlink is none, whatever it leads to. */
  async make(name: Buffer): Promise<boolean> {
    try {
      await this.named(name, (path) => fs.promises.mkdir(path))
      return true
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if ((await this.stat(name)).isDirectory()) return false
      throw inTheWay('NOT_A_DIRECTORY', String(joined(this.shown, name)))
    }
  }

  async rename(from: Buffer, to: Buffer): Promise<void> {
    await this.named(to, (path) => fs.promises.rename(joined(this.#path, from), path))
  }

  async chmod(mode: number): Promise<void> {
    await this.named(Buffer.from('.'), (path) => fs.promises.chmod(path, mode))
  }

  /** Calls a function with the path of an entry. The error of the system gets the path that the caller knows. */
  async named<T>(name: Buffer, use: (path: Buffer) => Promise<T>): Promise<T> {
    try {
      return await use(joined(this.#path, name))
    } catch (error) {
      const { path } = error as NodeJS.ErrnoException
      if (!(error instanceof Error) || path === undefined || !String(path).startsWith(FDS)) throw error
      const shown = String(joined(this.shown, name))
      error.message = error.message.replaceAll(String(path), shown)
      throw Object.assign(error, { path: shown })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle?.close()
  }
}

function isHostDirectory(path: string): boolean {
  return fs.statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}

function inTheWay(code: 'IS_A_DIRECTORY' | 'NOT_A_DIRECTORY', path: string): SandboxError {
  const what = code === 'IS_A_DIRECTORY' ? 'is a directory' : 'exists and is not a directory'
  return new SandboxError(code, `'${path}' ${what}`, { path })
}

function badListing(directory: Uint8Array, what: string): SandboxError {
  const shown = String(Buffer.from(directory))
  return new SandboxError('REQUEST_REFUSED', `the server lists in '${shown}' ${what}; nothing was copied`)
}

function joined(directory: Uint8Array, name: Uint8Array): Buffer {
  return Buffer.concat([directory, Buffer.from('/'), name])
}
