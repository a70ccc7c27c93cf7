/**
 * Makes a fresh clone ready to run: checks the tools, installs the dependencies, builds. Uses only Node's own modules,
 * since nothing else is installed yet.
 *
 *   node scripts/setup.mjs [--debug]      default: release
 *
 * If a tool is missing, prints one sentence that explains what to do, and exits with 1.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, statfsSync, statSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildAddon, buildSupervisor, buildTypeScript, run } from './build.mjs'

const MIN_NODE = [20, 19]
const MIN_BASH = [4, 4]
const MIN_RUST = [1, 88]

/** What the dependencies and a debug build with its tests take, and what their compilers take. */
const MIN_DISK_GB = 2
const MIN_MEMORY_GB = 1
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** A program's version output, or undefined if it cannot be run. */
function ask(program, args) {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return undefined
  }
}

function isOlder([major, minor], [leastMajor, leastMinor]) {
  return major < leastMajor || (major === leastMajor && minor < leastMinor)
}

/** A sentence about the first missing tool. */
function findProblem() {
  if (process.platform !== 'linux') return `nacre runs on Linux only, and this is ${process.platform}.`
  if (isOlder(process.versions.node.split('.').map(Number), MIN_NODE)) {
    return `nacre needs Node.js ${MIN_NODE.join('.')} or newer, and this is ${process.versions.node}: install a newer one.`
  }
  const bash = ask('bash', ['-c', 'echo $BASH_VERSION'])
  if (bash === undefined) return 'nacre needs bash 4.4 or newer, and there is none on PATH: install bash.'
  const [major, minor] = bash.split('.').map(Number)
  if (isOlder([major, minor], MIN_BASH)) {
    return `nacre needs bash 4.4 or newer, and the one on PATH is ${major}.${minor}: install a newer one.`
  }
  const rust = ask('rustc', ['--version'])
  if (rust === undefined || ask('cargo', ['--version']) === undefined) {
    return 'nacre is built with Rust, and there is no cargo on PATH: install Rust from https://rustup.rs.'
  }
  const version = /\d+\.\d+/.exec(rust)?.[0] ?? '0.0'
  if (isOlder(version.split('.').map(Number), MIN_RUST)) {
    return `nacre needs Rust ${MIN_RUST.join('.')} or newer, and this is ${version}: run rustup update.`
  }
  if (ask('cc', ['--version']) === undefined) {
    return 'nacre is built with a C compiler, and there is no cc on PATH: install gcc or clang.'
  }
  return undefined
}

/** A sentence about disk or memory that a build would not get. */
function findShortage() {
  const { bavail, bsize } = statfsSync(root)
  const isNew = !existsSync(path.join(root, 'target'))
  if (isNew && bavail * bsize < MIN_DISK_GB * 1e9)
    return `nacre needs ${MIN_DISK_GB} GB of disk to build, and ${root} has ${gigabytes(bavail * bsize)} free: make room there.`
  const memory = process.availableMemory()
  if (memory < MIN_MEMORY_GB * 1e9)
    return `nacre needs ${MIN_MEMORY_GB} GB of memory to build, and ${gigabytes(memory)} are free: end other programs.`
  return undefined
}

function gigabytes(bytes) {
  return `${(bytes / 1e9).toFixed(1)} GB`
}

/** Modification time in ms, or 0 if the file does not exist. */
function modified(file) {
  return statSync(path.join(root, file), { throwIfNoEntry: false })?.mtimeMs ?? 0
}

const problem = findProblem() ?? findShortage()
if (problem !== undefined) {
  console.error(problem)
  process.exit(1)
}

/** Installs the dependencies if the lock file is newer. */
async function install() {
  if (modified('node_modules/.package-lock.json') < modified('package-lock.json'))
    await run('npm', ['ci', '--ignore-scripts'])
}

const build = process.argv.includes('--debug') ? 'debug' : 'release'
await Promise.all([install(), buildAddon(build)])
await Promise.all([buildTypeScript(), buildSupervisor(build)])
