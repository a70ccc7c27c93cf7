/**
 * A directory as JSON.
 */
import type { FileInfo } from 'nacre'
import { kinds } from 'nacre/internal'
import type { backends } from 'nacre/internal/server'

/** Symlinks that are followed at a time. */
const AT_ONCE = 16

export interface Entry {
  name: string
  size: number
  type: 'file' | 'directory'
  modified_at: string
  mode: string
}

export interface Listing {
  path: string
  entries: Entry[]
}

/** Lists a directory. A symlink is shown as what it points at; one that leads nowhere or out of the root is left out. */
export async function listDirectory(
  files: backends.FilesBackend,
  directory: kinds.CheckedPath,
): Promise<Listing> {
  const found = await files.list(directory, 1)
  const entries: Array<Entry | undefined> = []
  for (let start = 0; start < found.length; start += AT_ONCE) {
    const some = found.slice(start, start + AT_ONCE).map((info) => entryOf(files, info))
    entries.push(...(await Promise.all(some)))
  }
  return {
    path: directory.shown === '.' ? '/' : `/${directory.shown}`,
    entries: entries.filter((entry) => entry !== undefined),
  }
}

async function entryOf(files: backends.FilesBackend, info: FileInfo): Promise<Entry | undefined> {
  const shown =
    info.type === 'symlink' ? await target(files, kinds.checkPath(info.pathBytes ?? info.path, 'path')) : info
  if (shown === undefined) return undefined
  return {
    name: info.name,
    size: shown.size,
    type: shown.type === 'directory' ? 'directory' : 'file',
    modified_at: dateOf(shown.modifiedAt),
    mode: `0${(shown.mode & 0o777).toString(8).padStart(3, '0')}`,
  }
}

async function target(files: backends.FilesBackend, path: kinds.CheckedPath): Promise<FileInfo | undefined> {
  try {
    return (await files.stat(path)) ?? undefined
  } catch {
    return undefined
  }
}

const LAST_DATE_MS = Date.UTC(9999, 11, 31, 23, 59, 59)

/** RFC 3339 has years of four digits. A program can give a file any date. */
function dateOf(modified: Date): string {
  const time = modified.getTime()
  return new Date(Math.min(Math.max(Number.isNaN(time) ? 0 : time, 0), LAST_DATE_MS)).toISOString()
}
