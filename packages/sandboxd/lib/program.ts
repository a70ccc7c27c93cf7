/**
 * Whether there is a program to run. bash would report a missing one as exit code 127, and a call should fail instead.
 */
import { kinds, path } from 'nacre/internal'
import type { backends } from 'nacre/internal/server'
import { Refused } from './status.js'

const ANY_EXECUTES = 0o111

/**
 * Looks a program up as execvp(3) does: a name on PATH, anything with a slash from the directory. Throws NOT_FOUND, and
 * PERMISSION_DENIED for what is there and cannot be executed.
 */
export async function findProgram(
  files: backends.FilesBackend,
  name: string,
  cwd: string,
  searched: string,
): Promise<void> {
  const places = name.includes('/') ? [cwd] : searched.split(':').map((place) => path.resolve(cwd, place))
  const found = await Promise.all(places.map((place) => stat(files, path.resolve(place, name))))
  if (found.includes('program')) return
  if (found.includes('other'))
    throw new Refused('PERMISSION_DENIED', `${kinds.quote(name)} cannot be executed`)
  const where = name.includes('/') ? '' : ' on PATH'
  throw new Refused('NOT_FOUND', `there is no program ${kinds.quote(name)}${where}`)
}

async function stat(files: backends.FilesBackend, file: string): Promise<'program' | 'other' | 'none'> {
  try {
    const info = await files.stat(kinds.checkPath(file, 'path'))
    if (info === null) return 'none'
    return info.type === 'file' && (info.mode & ANY_EXECUTES) !== 0 ? 'program' : 'other'
  } catch {
    // A directory of PATH that may not be searched has no programs for this user.
    return 'none'
  }
}
