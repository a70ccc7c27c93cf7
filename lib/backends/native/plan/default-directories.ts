/**
 * The directories of a sandbox without `stateDir` and `jobsRoot`.
 */
import { fs, os, path } from '../../../base/builtin.js'

const { lstatSync } = fs

const WRITABLE_BY_OTHERS = 0o022

/** Whether a directory is missing, is owned and writable by this user alone, or is neither. */
type Found = 'missing' | 'own' | 'foreign'

export function defaultStateDir(): string {
  return path.join(os.tmpdir(), `nacre-${uid()}`)
}

/**
 * `sandbox-jobs`, which other programs of this user also use. If it belongs to another user, the directory with this user's
 * id. A per-user directory in use stays in use even after the other user's directory is removed, so later programs of this
 * user find the same one.
 */
export function defaultJobsRoot(): string {
  const shared = path.join(os.tmpdir(), 'sandbox-jobs')
  const perUser = `${shared}-${uid()}`
  const found = look(shared)
  if (found === 'own') return shared
  if (found === 'foreign') return perUser
  return look(perUser) === 'own' ? perUser : shared
}

/** Checks the owner and mode of the directory. The engine checks again at each use. */
function look(directory: string): Found {
  try {
    const entry = lstatSync(directory)
    const isOwn = entry.uid === process.geteuid?.() && (entry.mode & WRITABLE_BY_OTHERS) === 0
    return entry.isDirectory() && isOwn ? 'own' : 'foreign'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'missing' : 'foreign'
  }
}

function uid(): string | number {
  return process.getuid?.() ?? 'user'
}
