/** A recording in a file that the user has named, without a limit. */
import { type FileHandle, open, rm } from 'node:fs/promises'
import { OptionError } from 'nacre/internal'
import type { Files } from './track.js'

export class OneFile implements Files {
  readonly file: string
  readonly segmentBytes = Number.POSITIVE_INFINITY
  readonly hasRoom = true
  bytes = 0
  /** The command may write where the file is, and replace it by a link. So it is never opened again. */
  readonly #handle: FileHandle

  private constructor(file: string, handle: FileHandle) {
    this.file = file
    this.#handle = handle
  }

  /** Rejects with OptionError, also when there is such a file. */
  static async create(file: string): Promise<OneFile> {
    try {
      return new OneFile(file, await open(file, 'wx', 0o600))
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const why = code === 'EEXIST' ? 'exists already' : `cannot be created: ${code}`
      throw new OptionError('INVALID_OPTION', `--output ${file} ${why}`, { cause })
    }
  }

  async begin(): Promise<this> {
    return this
  }

  async append(_: unknown, text: string): Promise<void> {
    const data = Buffer.from(text)
    try {
      for (let at = 0; at < data.length; )
        at += (await this.#handle.write(data, at, null, this.bytes + at)).bytesWritten
      this.bytes += data.length
    } catch (error) {
      await this.#handle.truncate(this.bytes)
      throw error
    }
  }

  /** It has no next segment, whose beginning would need it. */
  read(): never {
    throw new Error('a recording in one file is not read')
  }

  async end(): Promise<void> {}

  /** Closes the file, and removes it if nothing was recorded. Resolves with whether there is a recording. */
  async close(): Promise<boolean> {
    await this.#handle.close()
    if (this.bytes === 0) await rm(this.file, { force: true })
    return this.bytes > 0
  }
}
