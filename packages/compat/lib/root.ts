/** The directory of a server, with the directories of its sandboxes, and its key. */
import { execFile } from 'node:child_process'
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { chmod, link, lstat, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { OptionError } from 'nacre/internal'

const ID = /^([0-9a-z]+)_[0-9a-f]{40}$/
const SECRET = /^[0-9a-f]{64}$/

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
    given === undefined ? await temporary(api) : await own(path.resolve(given), 'root'),
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
    // What does not exist cannot be hidden, and another server may need it while this one runs.
    const secrets = own(secretDirectory(), 'XDG_STATE_HOME: the directory of keys')
    root.key = given === undefined ? freshName(api) : await keyOf(directory, api, await secrets)
    await secrets.catch(() => {})
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
  return path.join(stateDirectory(), api)
}

function stateDirectory(): string {
  return path.join(process.env.XDG_STATE_HOME || path.join(os.homedir(), '.local', 'state'), 'nacre')
}

/** Has the secret of which the keys of all servers of this user are made. */
function secretDirectory(): string {
  return path.join(stateDirectory(), 'compat')
}

/** What sandboxes must not see of all servers. Without mounts, hiding the directories would hide their own ones. */
export function hiddenPaths(isMounted: boolean): string[] {
  const own = [...roots].map(({ directory }) => directory)
  if (isMounted) return [stateDirectory(), ...own]
  const others = (['e2b', 'daytona'] as const).map(defaultRoot)
  return [secretDirectory(), ...[...own, ...others].map((directory) => path.join(directory, 'records'))]
}

function temporary(api: ApiName): Promise<string> {
  return mkdtemp(path.join(os.tmpdir(), `nacre-${api}-`))
}

/** `name` is what errors call it. */
async function own(directory: string, name: string): Promise<string> {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 })
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `${name} ${directory} cannot be created: ${code}`, { cause })
  }
  const stats = await lstat(directory)
  if (stats.isDirectory() && stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0) return directory
  throw new OptionError(
    'INVALID_OPTION',
    `${name} ${directory} must be a directory of this user that nobody else may enter: choose another, or change its mode to 0700`,
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

/**
 * The key of a root, which stays the same. It is made of what is in the root and of the secret, so that programs of sandboxes
 * cannot find it out: each sandbox hides the secret, and not the roots of all servers.
 */
async function keyOf(directory: string, api: ApiName, secrets: string): Promise<string> {
  const id = await idOf(directory, api)
  const secret = await secretIn(secrets)
  const digest = createHmac('sha256', secret).update(id).digest('hex')
  return `${KEY_PREFIX[api]}_${digest.slice(0, 40)}`
}

async function idOf(directory: string, api: ApiName): Promise<string> {
  const file = path.join(directory, 'id')
  const known = (await readFile(file, 'utf8').catch(() => '')).trim()
  const [isId, prefix] = ID.exec(known) ?? []
  if (prefix === KEY_PREFIX[api]) return known
  if (isId !== undefined)
    throw new OptionError(
      'INVALID_OPTION',
      `root ${directory} belongs to a server of another API: choose another`,
    )
  const id = freshName(api)
  await rm(file, { force: true })
  await writeFile(file, `${id}\n`, { mode: 0o600, flag: 'wx' })
  return id
}

function freshName(api: ApiName): string {
  return `${KEY_PREFIX[api]}_${randomBytes(20).toString('hex')}`
}

async function secretIn(directory: string): Promise<string> {
  const file = path.join(directory, 'secret')
  const read = () => readFile(file, 'utf8').catch(() => undefined)
  const secret = (await read()) ?? (await createSecret(file).then(read))
  if (secret !== undefined && SECRET.test(secret)) return secret
  throw new OptionError('INVALID_OPTION', `${file} is damaged: remove it, and all servers get new keys`)
}

/** Another server may do the same at the same time: the first one counts. */
async function createSecret(file: string): Promise<void> {
  const own = `${file}-${randomBytes(8).toString('hex')}`
  try {
    await writeFile(own, randomBytes(32).toString('hex'), { mode: 0o600, flag: 'wx' })
    await link(own, file).catch((error) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(own, { force: true })
  }
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
