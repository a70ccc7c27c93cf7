/**
 * Bash from Debian's releases, for tests. Packages are downloaded with separate package lists and unpacked into a cache;
 * nothing is installed.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const cache = path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'nacre-bash')
const keys = ['debian-archive-keyring.gpg', 'debian-archive-removed-keys.gpg']
  .map((name) => `/usr/share/keyrings/${name}`)
  .filter((file) => existsSync(file))

/** Releases with their archive, oldest bash first. */
export const SUITES = {
  buster: 'http://archive.debian.org/debian',
  bullseye: 'http://deb.debian.org/debian',
  bookworm: 'http://deb.debian.org/debian',
  trixie: 'http://deb.debian.org/debian',
  sid: 'http://deb.debian.org/debian',
}

/** The path of a release's bash, which is downloaded if it is not in the cache. */
export function fetchBash(suite) {
  const directory = path.join(cache, suite)
  const shell = ['usr/bin/bash', 'bin/bash'].map((name) => path.join(directory, 'root', name))
  const found = () => shell.find((file) => existsSync(file))
  if (!found()) download(suite, directory, ['bash'])
  const file = found()
  if (file === undefined) throw new Error('the package has no bash')
  if (ask(file) === undefined) giveLibraries(suite, directory, file)
  return file
}

/** Makes a bash use the C library of its own release. */
function giveLibraries(suite, directory, file) {
  download(suite, directory, ['libc6', 'libtinfo6'])
  const tools = path.join(cache, 'tools')
  const patchelf = path.join(tools, 'root/usr/bin/patchelf')
  if (!existsSync(patchelf)) download('bookworm', tools, ['patchelf'])
  const library = readdirSync(path.join(directory, 'root/usr/lib'), { recursive: true, encoding: 'utf8' })
  const loader = library.find((name) => /(^|\/)ld-linux[^/]*\.so\.\d$/.test(name))
  if (loader === undefined) throw new Error('its C library has no loader')
  const absolute = path.join(directory, 'root/usr/lib', loader)
  run(patchelf, ['--set-interpreter', absolute, '--set-rpath', path.dirname(absolute), file], directory)
}

/** Fetches the package lists of a release and returns the options that make apt-get use them. */
function prepare(kind, suite, directory) {
  const archive = SUITES[suite]
  if (archive === undefined) throw new Error(`unknown suite, known: ${Object.keys(SUITES).join(', ')}`)
  for (const name of ['lists/partial', 'archives/partial', 'root'])
    mkdirSync(path.join(directory, name), { recursive: true })
  writeFileSync(path.join(directory, 'status'), '')
  const signed = keys.length > 0 ? `[signed-by=${keys.join(',')}] ` : ''
  writeFileSync(path.join(directory, 'sources.list'), `${kind} ${signed}${archive} ${suite} main\n`)
  const options = Object.entries({
    'Dir::Etc::sourcelist': path.join(directory, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::Lists': path.join(directory, 'lists'),
    'Dir::State::status': path.join(directory, 'status'),
    'Dir::Cache': directory,
    'Dir::Cache::archives': path.join(directory, 'archives'),
    'Acquire::Check-Valid-Until': 'false',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
  }).flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const lists = readdirSync(path.join(directory, 'lists')).some((name) => /Packages|Sources/.test(name))
  if (!lists) run('apt-get', ['-qq', ...options, '--error-on=any', 'update'], directory)
  return options
}

/** Downloads packages of a release and unpacks them into `root`. */
function download(suite, directory, packages) {
  const options = prepare('deb', suite, directory)
  run('apt-get', ['-qq', ...options, 'download', ...packages], directory)
  for (const name of readdirSync(directory).filter((entry) => entry.endsWith('.deb'))) {
    run('dpkg-deb', ['-x', name, 'root'], directory)
    rmSync(path.join(directory, name))
  }
}

function run(program, args, cwd) {
  try {
    execFileSync(program, args, { cwd, stdio: ['ignore', 'ignore', 'pipe'], timeout: 300_000 })
  } catch (error) {
    const said = String(error.stderr ?? '')
      .split('\n')
      .find((line) => /^[EW]: /.test(line))
    throw new Error(said ?? firstLine(error))
  }
}

/** The directory of bash's unpacked source. Debian's patches are left out if they do not apply. */
export function fetchSource(suite) {
  const directory = path.join(cache, `${suite}-source`)
  const found = () =>
    (existsSync(directory) ? readdirSync(directory) : []).find((name) => /^bash-\d/.test(name))
  if (found() === undefined) {
    const options = prepare('deb-src', suite, directory)
    run('apt-get', ['-qq', ...options, 'source', '--download-only', 'bash'], directory)
    const archive = readdirSync(directory).find((name) => name.includes('.orig.tar.'))
    run('tar', ['-xf', archive], directory)
  }
  // Debian's source archive contains the upstream archive.
  const source = path.join(directory, found() ?? '')
  const inner = readdirSync(source).find((name) => /^bash-.*\.tar/.test(name))
  if (inner === undefined || existsSync(path.join(source, 'tests'))) return source
  run('tar', ['-xf', inner, '--strip-components=1'], source)
  return source
}

/** The version of a bash, or undefined if it does not run. */
export function ask(shell) {
  const { status, stdout } = spawnSync(shell, ['-c', 'echo "$BASH_VERSION"'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}

/** The first line of an error's message. */
export function firstLine(error) {
  return error.message.split('\n')[0]
}
