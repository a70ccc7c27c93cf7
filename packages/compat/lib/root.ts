/** The directory of a server: its key, and the directories of its sandboxes. */
import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { OptionError } from 'nacre/internal'

const KEY = /^([0-9a-z]+)_[0-9a-f]{40}$/

/** Of the servers in this process. */
const roots = new Set<Root>()

export type ApiName = 'e2b' | 'daytona'

/** SDKs check the form of keys. */
const KEY_PREFIX = { e2b: 'e2b', daytona: 'dtn' } as const

export interface Root {
  directory: string
  /** Has one directory for each sandbox. */
  sandboxes: string
  /** What is known of them. Their programs must not see it. */
  records: string
  /** Clients send it. */
  key: string
  /** Gives the directory free for other servers, and removes it if it is temporary. */
  close(): Promise<void>
}

/** Creates what is missing. Throws OptionError if the directory is not for this user alone, or another server uses it. */
export async function openRoot(api: ApiName, given: string | undefined): Promise<Root> {
  const directory = await realpath(
    given === undefined ? await temporary(api) : await own(path.resolve(given)),
  )
  const lock = await takeLock(directory)
  const close = async () => {
    roots.delete(root)
    lock.close()
    if (given === undefined) await removeTree(directory)
  }
  const root = {
    directory,
    sandboxes: path.join(directory, 'sandboxes'),
    records: path.join(directory, 'records'),
    key: '',
    close,
  }
  try {
    root.key = await keyOf(keyFileIn(directory), KEY_PREFIX[api])
    for (const inner of [root.sandboxes, root.records]) await mkdir(inner, { recursive: true, mode: 0o700 })
    roots.add(root)
    return root
  } catch (error) {
    await close()
    throw error
  }
}

/** Where a root is that outlives the server, unless the user chooses another. */
export function defaultRoot(api: ApiName): string {
  const state = process.env.XDG_STATE_HOME || path.join(os.homedir(), '.local', 'state')
  return path.join(state, 'nacre', api)
}

/** What sandboxes must not see of all servers. Without mounts, hiding the directories would hide their own ones. */
export function hiddenPaths(isMounted: boolean): string[] {
  const others = (['e2b', 'daytona'] as const).map(defaultRoot)
  const directories = [...others, ...[...roots].map(({ directory }) => directory)]
  return directories.flatMap((directory) =>
    isMounted ? [directory] : [keyFileIn(directory), path.join(directory, 'records')],
  )
}

function keyFileIn(directory: string): string {
  return path.join(directory, 'key')
}

function temporary(api: ApiName): Promise<string> {
  return mkdtemp(path.join(os.tmpdir(), `nacre-${api}-`))
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
    server.listen(`\0nacre-compat-${name}`, () => resolve(server.unref()))
  })
}

async function keyOf(file: string, prefix: string): Promise<string> {
  const known = (await readFile(file, 'utf8').catch(() => '')).trim()
  const [isKey, knownPrefix] = KEY.exec(known) ?? []
  if (knownPrefix === prefix) return known
  if (isKey !== undefined)
    throw new OptionError(
      'INVALID_OPTION',
      `root ${path.dirname(file)} belongs to a server of another API: choose another`,
    )
  const key = `${prefix}_${randomBytes(20).toString('hex')}`
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
