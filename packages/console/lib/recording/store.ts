/** The directory of recordings: the names of their files, limits, and compression. */
import type { BigIntStats } from 'node:fs'
import { constants, type FileHandle, lstat, open, readdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Logger } from 'nacre'
import { makeDirectories, OptionError, report } from 'nacre/internal'
import type { Files, Segment } from './track.js'

const SEGMENT_BYTES = 8 * 1024 * 1024
/** Maximum bytes of the files of one recording. */
const RECORDING_BYTES = 64 * 1024 * 1024
/** Maximum files in the directory: processes can be many and short. */
const MOST_FILES = 10_000

/** The name of a file: the recording, its number, and whether it is compressed. */
export const NAME = /^(.+)-(\d{4,})[.]cast([.]gz)?$/
const COMPRESSED = '.gz'
const PART = '.part'
/** They follow no link, and wait for no other end of a pipe: something may have replaced the file. */
const SAFE = constants.O_NOFOLLOW | constants.O_NONBLOCK
const APPEND = constants.O_WRONLY | constants.O_APPEND | SAFE
const READ = constants.O_RDONLY | SAFE
/** What others may do, by the mode of a directory. */
const OTHERS_WRITE = 0o022

interface StoredSegment extends Segment {
  /** The recording. */
  readonly name: string
  readonly number: number
  file: string
  /** Tells the file from any that replaces it. */
  readonly identity: string
  bytes: number
  /** Something still writes it. */
  isOpen: boolean
}

export class Store implements Files<StoredSegment> {
  readonly directory: string
  readonly segmentBytes = SEGMENT_BYTES
  readonly #limit: number
  readonly #logger: Logger | undefined
  /** The oldest first. */
  readonly #segments: Set<StoredSegment>
  #bytes: number

  private constructor(
    directory: string,
    segments: StoredSegment[],
    limit: number,
    logger: Logger | undefined,
  ) {
    this.directory = directory
    this.#segments = new Set(segments)
    this.#limit = limit
    this.#logger = logger
    this.#bytes = bytesOf(segments)
  }

  /** Rejects with OptionError. */
  static async open(directory: string, limit: number, logger: Logger | undefined): Promise<Store> {
    const absolute = path.resolve(directory)
    const store = new Store(absolute, await prepare(absolute), limit, logger)
    await store.#makeRoom()
    return store
  }

  get hasRoom(): boolean {
    return this.#bytes < this.#limit
  }

  async begin(name: string): Promise<StoredSegment> {
    const last = Math.max(0, ...this.#of(name).map(({ number }) => number))
    for (let number = last + 1; ; number++) {
      const file = path.join(this.directory, `${name}-${String(number).padStart(4, '0')}.cast`)
      let identity: string
      try {
        await using handle = await open(file, 'wx', 0o600)
        identity = identityOf(await handle.stat({ bigint: true }))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue
        throw error
      }
      const segment = { name, number, file, identity, bytes: 0, isOpen: true }
      this.#segments.add(segment)
      await this.#makeRoom()
      return segment
    }
  }

  async append(segment: StoredSegment, text: string): Promise<void> {
    const data = Buffer.from(text)
    // No descriptor is kept, since there can be many recordings.
    const handle = await openExactly(segment, APPEND).catch((error) => {
      if (error.code === 'ENOENT') this.#forget(segment)
      throw error
    })
    try {
      await handle.writeFile(data)
    } catch (error) {
      await handle.truncate(segment.bytes)
      throw error
    } finally {
      await handle.close()
    }
    this.#grow(segment, data.length)
    await this.#makeRoom()
  }

  /** What has been added, whatever else is in the file by now. */
  async *read(segment: StoredSegment): AsyncGenerator<Uint8Array, void> {
    await using handle = await openExactly(segment, READ)
    const { bytes } = segment
    if (bytes > 0) yield* handle.createReadStream({ autoClose: false, start: 0, end: bytes - 1 })
  }

  /** Compresses it. Never rejects: an uncompressed file is a recording, too. */
  async end(segment: StoredSegment): Promise<void> {
    const target = segment.file + COMPRESSED
    const part = target + PART
    try {
      const bytes = await this.#compress(segment, part)
      await rename(part, target)
      await rm(segment.file)
      this.#grow(segment, bytes - segment.bytes)
      segment.file = target
    } catch (error) {
      report(this.#logger, 'warn', `the recording ${segment.file} cannot be compressed: ${error}`)
      await rm(part, { force: true }).catch(() => {})
    }
    segment.isOpen = false
    const own = this.#of(segment.name)
    for (const oldest of own)
      if (bytesOf(this.#of(segment.name)) > RECORDING_BYTES) await this.#remove(oldest)
    await this.#makeRoom()
  }

  /**
   * Returns the bytes of the new file. That is open before anything can fail: a stream that opens it itself can create it after
   * it has been removed.
   */
  async #compress(segment: StoredSegment, target: string): Promise<number> {
    await using handle = await open(target, 'wx', 0o600)
    let bytes = 0
    await pipeline(this.read(segment), createGzip(), async (pieces: AsyncIterable<Buffer>) => {
      for await (const piece of pieces) {
        await handle.writeFile(piece)
        bytes += piece.length
      }
    })
    return bytes
  }

  #of(name: string): StoredSegment[] {
    return [...this.#segments].filter((segment) => segment.name === name)
  }

  #grow(segment: StoredSegment, bytes: number): void {
    segment.bytes += bytes
    this.#bytes += bytes
  }

  /** Removes the oldest files beyond the limits. Never rejects. */
  async #makeRoom(): Promise<void> {
    for (const segment of this.#segments) {
      if (this.#bytes <= this.#limit && this.#segments.size <= MOST_FILES) return
      await this.#remove(segment)
    }
  }

  async #remove(segment: StoredSegment): Promise<void> {
    if (segment.isOpen) return
    this.#forget(segment)
    await rm(segment.file, { force: true }).catch(() => {})
  }

  #forget(segment: StoredSegment): void {
    if (this.#segments.delete(segment)) this.#bytes -= segment.bytes
  }
}

/** Opens the file that the recorder has made. Rejects if there is another one in its place. */
async function openExactly({ file, identity }: StoredSegment, flags: number): Promise<FileHandle> {
  const handle = await open(file, flags)
  const stats = await handle.stat({ bigint: true })
  if (stats.isFile() && identityOf(stats) === identity) return handle
  await handle.close()
  throw new Error(`${file} is not the file of the recorder any more`)
}

/** A number can be used again for another file. */
function identityOf({ dev, ino, birthtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${birthtimeNs}`
}

function bytesOf(segments: StoredSegment[]): number {
  return segments.reduce((sum, { bytes }) => sum + bytes, 0)
}

/** Creates it unless it exists, and reads what it has. Others must not be able to read recordings, or to replace them by links. */
async function prepare(directory: string): Promise<StoredSegment[]> {
  try {
    makeDirectories(directory, 0o700)
    const { uid, mode } = await stat(directory)
    if (uid === process.geteuid?.() && (mode & OTHERS_WRITE) === 0) return await segmentsIn(directory)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `directory ${directory} cannot be used for recordings: ${code}`, {
      cause,
    })
  }
  throw new OptionError(
    'INVALID_OPTION',
    `directory ${directory} must belong to this user, and others must not be able to write there: chmod 700`,
  )
}

/** The recordings of earlier recorders, the oldest first. Removes what a recorder that was killed left half done. */
async function segmentsIn(directory: string): Promise<StoredSegment[]> {
  const found: (StoredSegment & { time: number })[] = []
  for (const entry of await readdir(directory)) {
    const file = path.join(directory, entry)
    if (entry.endsWith(PART) && NAME.test(entry.slice(0, -PART.length))) await rm(file, { force: true })
    const [, name, number] = NAME.exec(entry) ?? []
    if (name === undefined) continue
    const stats = await lstat(file, { bigint: true })
    if (!stats.isFile()) continue
    const segment = { name, number: Number(number), file, identity: identityOf(stats) }
    found.push({ ...segment, bytes: Number(stats.size), isOpen: false, time: Number(stats.mtimeMs) })
  }
  return found.sort((left, right) => left.time - right.time)
}
