/** A recording in a file that the user has named, without a limit. */
import { appendFile, open, truncate } from 'node:fs/promises'
import { OptionError } from 'nacre/internal'
import type { Files } from './track.js'

export class OneFile implements Files {
  readonly file: string
  readonly segmentBytes = Number.POSITIVE_INFINITY
  readonly hasRoom = true
  bytes = 0

  private constructor(file: string) {
    this.file = file
  }

  /** Rejects with OptionError, also when there is such a file. */
  static async create(file: string): Promise<OneFile> {
    try {
      await (await open(file, 'wx', 0o600)).close()
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      const why = code === 'EEXIST' ? 'exists already' : `cannot be created: ${code}`
      throw new OptionError('INVALID_OPTION', `--output ${file} ${why}`, { cause })
    }
    return new OneFile(file)
  }

  async begin(): Promise<this> {
    return this
  }

  async append(_: unknown, text: string): Promise<void> {
    try {
      await appendFile(this.file, text)
      this.bytes += Buffer.byteLength(text)
    } catch (error) {
      await truncate(this.file, this.bytes)
      throw error
    }
  }

  async end(): Promise<void> {}
}
