/**
 * Where a sandbox keeps its files unless `stateDir` and `jobsRoot` say otherwise.
 */
import { lstatSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const WRITABLE_BY_OTHERS = 0o022

/** Missing, owned and writable by this user alone, or neither. */
type Found = 'missing' | 'own' | 'foreign'

export function defaultStateDir(): string {
  return path.join(os.tmpdir(), `nacre-${uid()}`)
}

/**
 * `sandbox-jobs`, which other programs of this user look into as well, or a directory of this user where another user was
 * there first. Any later program of this user finds the same one: a directory per user that is in use stays in use when
 * the other user's is removed.
 */
export function defaultJobsRoot(): string {
  const shared = path.join(os.tmpdir(), 'sandbox-jobs')
  const perUser = `${shared}-${uid()}`
  const found = look(shared)
  if (found === 'own') return shared
  if (found === 'foreign') return perUser
  return look(perUser) === 'own' ? perUser : shared
}

/** The engine checks again whenever it uses the directory. */
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
