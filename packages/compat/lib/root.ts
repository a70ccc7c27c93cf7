/** The directory of a server: its key, and the directories of its sandboxes. */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { OptionError } from 'nacre/internal'

const KEY = /^e2b_[0-9a-f]{40}$/

export interface Root {
  directory: string
  /** Has one directory for each sandbox. */
  sandboxes: string
  keyFile: string
  key: string
  /** Gives the directory free for other servers, and removes it if it is temporary. */
  close(): Promise<void>
}

/** Creates what is missing. Throws OptionError if the directory is not for this user alone, or another server uses it. */
export async function openRoot(given: string | undefined): Promise<Root> {
  const directory = await realpath(given === undefined ? await temporary() : await own(path.resolve(given)))
  const lock = await takeLock(directory)
  const close = async () => {
    lock.close()
    if (given === undefined) await removeTree(directory)
  }
  const sandboxes = path.join(directory, 'sandboxes')
  const keyFile = path.join(directory, 'key')
  try {
    await mkdir(sandboxes, { recursive: true, mode: 0o700 })
    return { directory, sandboxes, keyFile, key: await keyOf(keyFile), close }
  } catch (error) {
    await close()
    throw error
  }
}

function temporary(): Promise<string> {
  return mkdtemp(path.join(os.tmpdir(), 'nacre-e2b-'))
}

async function own(directory: string): Promise<string> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `root ${directory} cannot be created: ${code}`, { cause })
  }
  const stats = await lstat(directory)
  if (stats.isDirectory() && stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0) return directory
  throw new OptionError(
    'INVALID_OPTION',
    `root ${directory} must be a directory of this user that nobody else may enter: choose another, or change its mode to 0700`,
  )
}

/** A name that the kernel frees with this process, however it ends. */
async function takeLock(directory: string): Promise<net.Server> {
  const name = createHash('sha256').update(directory).digest('hex').slice(0, 32)
  const server = net.createServer((connection) => connection.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new OptionError('INVALID_OPTION', `root ${directory} is in use by another server: choose another`, {
          cause,
        }),
      ),
    )
    server.listen(`\0nacre-e2b-${name}`, () => resolve(server.unref()))
  })
}

async function keyOf(file: string): Promise<string> {
  const known = await readFile(file, 'utf8').catch(() => '')
  if (KEY.test(known.trim())) return known.trim()
  const key = `e2b_${randomBytes(20).toString('hex')}`
  await rm(file, { force: true })
  await writeFile(file, `${key}\n`, { mode: 0o600, flag: 'wx' })
  return key
}

/** Removes a directory, even if programs took the rights to it away from its owner. */
export async function removeTree(directory: string): Promise<void> {
  try {
    await rm(directory, { recursive: true, force: true })
  } catch {
    await chmod(directory, 0o700)
    // It follows no links.
    await promisify(execFile)('chmod', ['-R', 'u+rwX', '--', directory])
    await rm(directory, { recursive: true, force: true })
  }
}
