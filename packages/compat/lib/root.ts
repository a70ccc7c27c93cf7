/** The directory of a server, with the directories of its sandboxes, and its key. */
import { execFile } from 'node:child_process'
import { createHash, createHmac, randomBytes } from 'node:crypto'
import {
  chmod,
  link,
  lstat,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { makeDirectories, OptionError } from 'nacre/internal'

const ID = /^([0-9a-z]+)_[0-9a-f]{40}$/
const SECRET = /^[0-9a-f]{64}$/
/** The beginning of the names of links to roots, beside the secret. */
const ROOT_LINK = 'root-'
/** In errors. */
const SECRETS_NAME = 'XDG_STATE_HOME: the directory of keys'

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
  const isTemporary = given === undefined
  const directory = await realpath(
    isTemporary ? await temporary(api) : await own(path.resolve(given), 'root'),
  )
  const lock = await takeLock(directory)
  let registered: string | undefined
  const close = async () => {
    roots.delete(root)
    lock.close()
    if (!isTemporary) return
    await removeTree(directory)
    if (registered !== undefined) await rm(registered, { force: true })
  }
  // A temporary root needs no directory of keys.
  const forgive = (error: unknown): undefined => {
    if (!isTemporary) throw error
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
    const secrets = await own(secretDirectory(), SECRETS_NAME).catch(forgive)
    root.key = isTemporary || secrets === undefined ? freshName(api) : await keyOf(directory, api, secrets)
    for (const inner of [root.sandboxes, root.records]) makeDirectories(inner, 0o700)
    if (secrets !== undefined) registered = await register(directory, secrets).catch(forgive)
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
  const given = process.env.XDG_STATE_HOME ?? ''
  // By the XDG Base Directory Specification, relative paths are ignored.
  const base = path.isAbsolute(given) ? given : path.join(os.homedir(), '.local', 'state')
  return path.join(base, 'nacre')
}

/** Has the secret of which the keys of all servers of this user are made, and a link to the root of each. */
function secretDirectory(): string {
  return path.join(stateDirectory(), 'compat')
}

/** What sandboxes of a server must not see of all servers. Without mounts, hiding its root would hide their own directories. */
export async function hiddenPaths({ directory, records }: Root, isMounted: boolean): Promise<string[]> {
  const known = [...roots].map((root) => root.directory)
  const all = [...new Set([...known, ...(await registeredRoots())])]
  if (isMounted) return [stateDirectory(), ...all]
  const others = all.filter((one) => one !== directory)
  const inner = ['records', 'sandboxes']
  return [
    secretDirectory(),
    records,
    ...others.flatMap((other) => inner.map((name) => path.join(other, name))),
  ]
}

/** Lets sandboxes of other servers hide the root, as long as it exists. Returns what names it. */
async function register(directory: string, secrets: string): Promise<string> {
  const file = path.join(secrets, ROOT_LINK + hashOf(directory))
  try {
    await symlink(directory, file)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code !== 'EEXIST')
      throw new OptionError('INVALID_OPTION', `${SECRETS_NAME} ${secrets} cannot be written: ${code}`, {
        cause,
      })
  }
  return file
}

/** Forgets those that do not exist any more. */
async function registeredRoots(): Promise<string[]> {
  try {
    const secrets = await own(secretDirectory(), SECRETS_NAME)
    const files = (await readdir(secrets)).filter((name) => name.startsWith(ROOT_LINK))
    const found = await Promise.all(files.map((name) => registeredRoot(path.join(secrets, name))))
    return found.flat()
  } catch {
    // A server with a temporary root runs without it.
    return []
  }
}

async function registeredRoot(file: string): Promise<string[]> {
  try {
    const directory = await readlink(file)
    await lstat(path.join(directory, 'records'))
    return [directory]
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') await rm(file, { force: true })
    return []
  }
}

function temporary(api: ApiName): Promise<string> {
  return mkdtemp(path.join(os.tmpdir(), `nacre-${api}-`))
}

/** `name` is what errors call it. */
async function own(directory: string, name: string): Promise<string> {
  try {
    makeDirectories(directory, 0o700)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `${name} ${directory} cannot be created: ${code}`, { cause })
  }
  const stats = await lstat(directory)
  if (stats.isDirectory() && stats.uid === process.getuid?.() && (stats.mode & 0o077) === 0) return directory
  throw new OptionError(
    'INVALID_OPTION',
    `${name} ${directory} must be a directory that only this user may enter: choose another, or change its mode to 0700`,
  )
}

function hashOf(directory: string): string {
  return createHash('sha256').update(directory).digest('hex').slice(0, 32)
}

/** A name that the kernel frees with this process, however it ends. */
async function takeLock(directory: string): Promise<net.Server> {
  const name = hashOf(directory)
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
  // A server removes sandboxes without a record.
  if ((await readdir(directory)).length > 0)
    throw new OptionError(
      'INVALID_OPTION',
      `root ${directory} (--root) has files that are not of a server: choose an empty directory or a new one`,
    )
  const id = freshName(api)
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
