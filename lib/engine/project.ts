/** The project of a container: what it has of this machine's files. */
import { fs, os, path } from '../base/builtin.js'
import { SandboxError } from '../base/errors.js'
import { homeDirectory } from '../base/home.js'

const { lstatSync, openSync, closeSync, readSync, realpathSync } = fs

/** Bytes of a file of git that are read. */
const MOST_BYTES = 8192

/** The real path of an existing directory, or of a mount, which may be a file. */
export function realPath(given: string, name: string, code: 'CWD_NOT_FOUND' | 'MOUNT_MISSING'): string {
  try {
    const real = realpathSync(given)
    if (code === 'CWD_NOT_FOUND') fs.accessSync(`${real}/`, fs.constants.R_OK | fs.constants.X_OK)
    return real
  } catch (cause) {
    const { code: reason } = cause as NodeJS.ErrnoException
    throw new SandboxError(code, `${name} ${given} cannot be used (${reason}): give an existing path`, {
      cause,
    })
  }
}

/** The directories of a project: its top, and for a linked work tree also its repository. */
export type Project = [top: string, ...repository: string[]]

/**
 * What a container needs for a directory: the top of its git repository, or else the directory, and for a linked worktree also
 * the repository that has its commits. Throws PROJECT_TOO_WIDE.
 */
export function projectOf(cwd: string): Project {
  refuseWide(cwd, 'cwd')
  for (let top = cwd; !isWide(top); top = path.dirname(top)) {
    const repository = repositoryOf(top)
    if (repository !== undefined) return isBelow(repository, top) ? [top] : [top, repository]
  }
  return [cwd]
}

/** Throws PROJECT_TOO_WIDE for a directory with everything of this user. */
export function refuseWide(directory: string, name: string): void {
  if (!isWide(directory)) return
  throw new SandboxError(
    'PROJECT_TOO_WIDE',
    `${name} is ${directory}, which has the home directory of this user: give the directory of a project`,
  )
}

function isWide(directory: string): boolean {
  // A user may have no home directory.
  return path.dirname(directory) === directory || homes().some((home) => isWithin(home, directory))
}

/**
 * Whether a file is the directory or lies in it. Compares directories, not names: a Mac ignores case, and has a second path for
 * each directory.
 */
export function isWithin(file: string, directory: string): boolean {
  const wanted = identityOf(directory)
  for (let at = file; ; at = path.dirname(at)) {
    if (at === directory || (wanted !== undefined && identityOf(at) === wanted)) return true
    if (at === path.dirname(at)) return false
  }
}

/** The home directory of this user, also when HOME names another one. */
export function homes(): string[] {
  const found = [homeDirectory()]
  try {
    found.push(os.userInfo().homedir)
  } catch {
    // The user database does not know this user.
  }
  // An empty HOME names no directory.
  return found.filter((home) => path.isAbsolute(home)).map(realpathOr)
}

/** Which file it is, whatever its name. undefined if there is none. */
export function identityOf(file: string): string | undefined {
  try {
    const { dev, ino } = fs.statSync(file, { bigint: true })
    return `${dev}:${ino}`
  } catch {
    return undefined
  }
}

function realpathOr(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}

export function isBelow(file: string, directory: string): boolean {
  return file === directory || file.startsWith(directory.replace(/\/*$/, '/'))
}

/**
 * The directory with the commits of the work tree at `top`, undefined if that is none. One of another user counts for nothing:
 * anybody can make a directory `.git` in /tmp, and all of /tmp would be the project.
 *
 * A file `.git` names another directory. Anybody can write such a file, so it is believed only if that directory names the
 * work tree in return. A submodule is a part of the work tree above it.
 */
function repositoryOf(top: string): string | undefined {
  const git = path.join(top, '.git')
  const entry = lstatSync(git, { throwIfNoEntry: false })
  // Files of this user and of root, as for git.
  if (entry === undefined || ![0, process.getuid?.()].includes(entry.uid)) return undefined
  if (entry.isDirectory()) return git
  if (!entry.isFile()) return undefined
  const named = /^gitdir: (.+)\n?$/.exec(readStart(git))?.[1]
  if (named === undefined) return undefined
  try {
    const own = realpathSync(path.resolve(top, named))
    const repository = realpathSync(path.resolve(own, readStart(path.join(own, 'commondir')).trim()))
    const isMutual = realpathSync(readStart(path.join(own, 'gitdir')).trim()) === git
    if (isMutual && path.dirname(own) === path.join(repository, 'worktrees')) {
      refuseWide(repository, 'the repository of cwd')
      return repository
    }
  } catch (error) {
    if (error instanceof SandboxError) throw error
  }
  return undefined
}

/** The beginning of a file, empty if it cannot be read. Only regular files are opened: a pipe would block. */
function readStart(file: string): string {
  if (!lstatSync(file, { throwIfNoEntry: false })?.isFile()) return ''
  const descriptor = openSync(file, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK)
  try {
    const bytes = Buffer.alloc(MOST_BYTES)
    return bytes.toString('utf8', 0, readSync(descriptor, bytes, 0, MOST_BYTES, 0))
  } finally {
    closeSync(descriptor)
  }
}
