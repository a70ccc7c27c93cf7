/**
 * Puts an executable that is carried in memory where it can be started: into a directory of this user's below the
 * temporary one, under a name that has its hash.
 *
 * It stays there for the next program. No other user can have put something in its place: the directory must be this
 * user's own and writable for no other, and what lies there is compared byte for byte before it is used. Others may
 * read it, since it is also started as the `user` of a sandbox.
 *
 * Programs that start at the same time each write a file of their own and rename it: the last one replaces the file
 * by an equal one, and a program that runs the former keeps it.
 */
import { crypto, fs, os, path } from '../base/builtin.js'
import { makeDirectories } from '../base/directories.js'
import { SandboxError } from '../base/errors.js'

const { chmodSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } = fs

const WRITABLE_FOR_OTHERS = 0o022
/** The end of the name that a file has until it is complete: a hash and a random number. */
const TEMPORARY = /-[0-9a-f]{16}\.[0-9a-f]{16}$/
/** No program takes that long to write such a file: it was killed while it did. */
const ABANDONED_AFTER_MS = 60 * 60 * 1000

/** The absolute path of the file, mode 0755. Throws STATE_DIR_UNAVAILABLE. */
export function unpackExecutable(bytes: Uint8Array, name: string): string {
  const directory = path.resolve(os.tmpdir(), `nacre-${process.getuid?.() ?? 'user'}-bin`)
  const hash = crypto().createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  const file = path.join(directory, `${name}-${hash}`)
  try {
    makePrivate(directory)
    if (!holds(file, bytes)) {
      sweep(directory, name)
      put(file, bytes)
    }
    return file
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const message = `'${name}' cannot be unpacked into '${directory}': ${reason}; set TMPDIR to another directory`
    throw new SandboxError('STATE_DIR_UNAVAILABLE', message, { cause })
  }
}

/** Makes the directory, and makes sure of one that is there already. */
function makePrivate(directory: string): void {
  makeDirectories(directory, 0o755)
  const entry = lstatSync(directory)
  if (!entry.isDirectory() || !isOwn(entry)) {
    throw new Error('it is no directory of this user, or others can write to it')
  }
  // The umask may have kept other users out.
  if ((entry.mode & 0o777) !== 0o755) chmodSync(directory, 0o755)
}

/** Whether exactly this is there, and no other user can change it. */
function holds(file: string, bytes: Uint8Array): boolean {
  const entry = lstatSync(file, { throwIfNoEntry: false })
  const isSound = entry?.isFile() === true && isOwn(entry) && (entry.mode & 0o777) === 0o755
  return isSound && entry.size === bytes.length && readFileSync(file).equals(bytes)
}

/** Removes files of programs that were killed before they could rename them: some megabytes each. */
function sweep(directory: string, name: string): void {
  const now = Date.now()
  for (const entry of readdirSync(directory)) {
    if (!entry.startsWith(`${name}-`) || !TEMPORARY.test(entry)) continue
    const file = path.join(directory, entry)
    const found = lstatSync(file, { throwIfNoEntry: false })
    if (found?.isFile() === true && isOwn(found) && now - found.mtimeMs > ABANDONED_AFTER_MS)
      rmSync(file, { force: true })
  }
}

function put(file: string, bytes: Uint8Array): void {
  const temporary = `${file}.${crypto().randomBytes(8).toString('hex')}`
  try {
    writeFileSync(temporary, bytes, { flag: 'wx', mode: 0o755 })
    chmodSync(temporary, 0o755)
    renameSync(temporary, file)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

function isOwn({ uid, mode }: { uid: number; mode: number }): boolean {
  return uid === process.getuid?.() && (mode & WRITABLE_FOR_OTHERS) === 0
}
