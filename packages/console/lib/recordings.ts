/** The recordings of a directory, as `@nacre/server` serves them. Commands may be able to write there. */
import { constants, lstat, open, readdir } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { NAME } from './recording/store.js'

export interface StoredRecording {
  name: string
  bytes: number
  modifiedAt: Date
}

/** Longer files are none of a recorder. */
const MOST_BYTES = 16 * 1024 * 1024
/** It follows no link, and waits for no writer of a pipe. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** The newest first. */
export async function listRecordings(directory: string): Promise<StoredRecording[]> {
  const found: StoredRecording[] = []
  for (const name of await readdir(directory)) {
    if (!NAME.test(name)) continue
    const stats = await lstat(path.join(directory, name)).catch(() => undefined)
    if (stats?.isFile()) found.push({ name, bytes: stats.size, modifiedAt: stats.mtime })
  }
  return found.sort((left, right) => right.modifiedAt.getTime() - left.modifiedAt.getTime())
}

/** The text of a recording. Undefined when there is none of this name that can be read. */
export async function readRecording(directory: string, name: string): Promise<Buffer | undefined> {
  if (!NAME.test(name) || name.includes('/')) return undefined
  try {
    await using handle = await open(path.join(directory, name), READ)
    const stats = await handle.stat()
    if (!stats.isFile() || stats.size > MOST_BYTES) return undefined
    const content = await handle.readFile()
    return name.endsWith('.gz') ? await promisify(gunzip)(content, { maxOutputLength: MOST_BYTES }) : content
  } catch {
    return undefined
  }
}
