/**
 * The files of nacre that a container mounts: the server, and the native part for its C libraries.
 *
 * They are copied into the cache of this user, once per version, since a package manager may move or clean its directories
 * while a container refers to them.
 */
import { ADDON, SUPERVISOR } from '../addon/directory.js'
import { packageRoot } from '../addon/package-root.js'
import { PLATFORMS, VERSION } from '../addon/platforms.js'
import { findBuild, findPackage, programDirectories } from '../addon/search.js'
import { refuseAborted } from '../base/abort.js'
import { crypto, fs, path } from '../base/builtin.js'
import { makeDirectories } from '../base/directories.js'
import { SandboxError } from '../base/errors.js'
import { homeDirectory } from '../base/home.js'
import { call, reasonOf } from './call.js'
import type { SearchPath } from './search-path.js'

const { chmodSync, copyFileSync, existsSync, lstatSync, mkdtempSync, renameSync, rmSync, statSync } = fs

/** The version of Bun for images without Node.js, which the tests use too. */
const BUN = '1.4.5'
/** Milliseconds that npm has to fetch it. */
const FETCH_MS = 10 * 60_000

/** Milliseconds after which a copy that no client has used is removed. */
const UNUSED_MS = 30 * 24 * 3_600_000

/** A C library, as the names of packages have it. */
export type Abi = 'gnu' | 'musl'

/** Files to copy: names in the directory, and where they are. */
type Sources = Record<string, string>

/** The directory with the files for a processor, and whether it is new. Throws RUNTIME_UNSUPPORTED and STATE_DIR_UNAVAILABLE. */
export function prepareRuntime(arch: string): { directory: string; isNew: boolean } {
  // By its name, it is a module whatever the directories above it have.
  const sources = { 'inside.mjs': serverFile(), ...nativeFiles(arch) }
  const hash = crypto().createHash('sha256')
  for (const [name, file] of Object.entries(sources)) hash.update(`${name} ${digestOf(file)}\n`)
  const cache = cacheDirectory()
  const directory = path.join(cache, `${VERSION}-${arch}-${hash.digest('hex').slice(0, 12)}`)
  try {
    const isNew = !isOwn(directory)
    if (isNew) copy(sources, cache, directory)
    else markUsed(directory)
    return { directory: fs.realpathSync(directory), isNew }
  } catch (cause) {
    const message = `nacre cannot copy its files to ${directory}: ${(cause as Error).message}; make it writable`
    throw new SandboxError('STATE_DIR_UNAVAILABLE', message, { cause })
  }
}

/** Of files that this process has read, by their names, sizes and times. */
const digests = new Map<string, string>()

/** Of the content: npm gives files the time of their installation, and each one would have containers of its own. */
function digestOf(file: string): string {
  const { size, mtimeMs } = statSync(file)
  const key = `${file} ${size} ${mtimeMs}`
  const known = digests.get(key)
  if (known !== undefined) return known
  const digest = crypto().createHash('sha256').update(fs.readFileSync(file)).digest('hex')
  digests.set(key, digest)
  return digest
}

function serverFile(): string {
  const roots = programDirectories().flatMap((directory) => packageRoot(directory) ?? [])
  const file = roots.map((root) => path.join(root, 'dist/engine/inside.js')).find((one) => existsSync(one))
  if (file !== undefined) return file
  const message =
    'nacre is a part of a bundle, which lacks its server for containers: keep nacre outside of the bundle (external)'
  throw new SandboxError('RUNTIME_UNSUPPORTED', message)
}

/** The native part: of a build in a clone, of the package for containers, or of this machine's platform package. */
function nativeFiles(arch: string): Sources {
  const directories = programDirectories()
  const clone = findBuild(directories)
  if (clone !== undefined && arch === process.arch) return platformFiles('gnu', clone)
  const carried = findPackage(`@nacre/container-${arch}`, directories)
  if (carried !== undefined) return containerFiles(carried)
  const found = PLATFORMS.filter((one) => one.arch === arch).flatMap(({ name, libc }) => {
    const directory = findPackage(name, directories)
    return directory === undefined ? [] : [platformFiles(libc === 'musl' ? 'musl' : 'gnu', directory)]
  })
  if (found.length > 0) return Object.assign({}, ...found)
  const wanted = process.platform === 'linux' ? `@nacre/linux-${arch}-gnu` : `@nacre/container-${arch}`
  const message =
    `the package ${wanted} is not installed beside nacre: install with optional dependencies ` +
    `(npm install --include=optional), and give an engine for ${process.arch}`
  throw new SandboxError('RUNTIME_UNSUPPORTED', message)
}

function platformFiles(abi: Abi, directory: string): Sources {
  const supervisor = path.join(directory, SUPERVISOR)
  return {
    [SUPERVISOR]: supervisor,
    [`${abi}/${ADDON}`]: path.join(directory, ADDON),
    [`${abi}/${SUPERVISOR}`]: supervisor,
  }
}

/** The package has one supervisor, which is static, and an addon for each C library. */
function containerFiles(directory: string): Sources {
  const abis = (['gnu', 'musl'] as const).filter((abi) => existsSync(path.join(directory, abi)))
  const files = abis.map((abi) => ({
    ...platformFiles(abi, directory),
    [`${abi}/${ADDON}`]: path.join(directory, abi, ADDON),
  }))
  return Object.assign({}, ...files)
}

function cacheDirectory(): string {
  const { XDG_CACHE_HOME = '' } = process.env
  if (process.platform === 'darwin') return path.join(homeDirectory(), 'Library/Caches/nacre/runtime')
  return path.join(
    path.isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : path.join(homeDirectory(), '.cache'),
    'nacre/runtime',
  )
}

/** Whether the directory is there. It is complete then. Throws if another user could have put it there. */
function isOwn(directory: string): boolean {
  const entry = lstatSync(directory, { throwIfNoEntry: false })
  if (entry === undefined) return false
  if (entry.isDirectory() && [0, process.getuid?.()].includes(entry.uid) && (entry.mode & 0o022) === 0)
    return true
  throw new Error('it is no directory of this user, or others can write to it')
}

/** Copies into a directory that gets its name when it is complete. Another program may be faster. */
function copy(sources: Sources, cache: string, directory: string): void {
  makeDirectories(cache, 0o755)
  const temporary = mkdtempSync(path.join(cache, 'new-'))
  try {
    // Commands run as another user in the container.
    chmodSync(temporary, 0o755)
    for (const [name, file] of Object.entries(sources)) {
      const target = path.join(temporary, name)
      makeDirectories(path.dirname(target), 0o755)
      copyFileSync(file, target)
      chmodSync(target, 0o755)
    }
    renameSync(temporary, directory)
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true })
    if (!isOwn(directory)) throw error
  }
}

function markUsed(directory: string): void {
  try {
    fs.utimesSync(directory, new Date(), new Date())
  } catch {
    // Another user's copy: root has made it.
  }
}

/**
 * Removes copies of other versions, and of programs that were killed, which nothing has used for long. `used` has the names of
 * those with which a container runs.
 */
export function sweepRuntimes(used: ReadonlySet<string>): void {
  const cache = cacheDirectory()
  const oldest = Date.now() - UNUSED_MS
  for (const name of fs.readdirSync(cache)) {
    const entry = path.join(cache, name)
    if (used.has(name)) continue
    try {
      if (lstatSync(entry).mtimeMs >= oldest) continue
      // A part of it must not have its name if this is interrupted.
      const removed = path.join(cache, `new-${process.pid}-${name}`)
      renameSync(entry, removed)
      rmSync(removed, { recursive: true, force: true })
    } catch {
      // Another program may be faster.
    }
  }
}

/** Puts Bun beside the other files, for images without Node.js. Rejects with RUNTIME_UNSUPPORTED. */
export async function fetchBun(
  directory: string,
  arch: string,
  abi: Abi,
  signal: AbortSignal | undefined,
  search: SearchPath,
): Promise<void> {
  const processor = arch === 'arm64' ? 'aarch64' : arch
  const name = `@oven/bun-linux-${processor}${abi === 'musl' ? '-musl' : ''}`
  const npm = search.find('npm')
  if (npm === undefined) throw withoutRuntime('there is no npm to fetch Bun with')
  const temporary = mkdtempSync(path.join(path.dirname(directory), 'new-'))
  try {
    const platform = ['--os=linux', `--cpu=${arch}`, `--libc=${abi === 'musl' ? 'musl' : 'glibc'}`]
    // A version never changes, so a copy in npm's cache is as good.
    const quiet = [
      '--prefer-offline',
      '--ignore-scripts',
      '--no-audit',
      '--no-fund',
      '--no-save',
      '--no-package-lock',
    ]
    const args = ['install', '--prefix', temporary, ...platform, ...quiet, `${name}@${BUN}`]
    const answer = await call(npm, args, { env: search.env, timeout: FETCH_MS, signal })
    refuseAborted(signal, 'opening the sandbox')
    if (!answer.isOk) throw withoutRuntime(`npm cannot fetch Bun: ${reasonOf(answer)}`)
    const fetched = path.join(temporary, 'node_modules', name, 'bin/bun')
    chmodSync(fetched, 0o755)
    renameSync(fetched, path.join(directory, `bun-${abi}`))
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

function withoutRuntime(why: string): SandboxError {
  const message = `the image has no Node.js 20.19, 22.3 or newer, and ${why}: choose an image with Node.js, like node:22`
  return new SandboxError('RUNTIME_UNSUPPORTED', message)
}
