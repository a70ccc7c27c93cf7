/**
 * Tests the builtin and the conformance tables with the bash versions of Debian's suites.
 *
 *   node scripts/bash-matrix.mjs [--only SUITE]... [--shell PATH]...      after a debug build
 *
 * The packages are downloaded with lists of their own and unpacked into a cache; nothing is installed. A bash that
 * needs a newer C library gets that of its suite. A version that cannot be fetched is skipped with one sentence.
 * `--shell` tests other executables instead.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const cache = path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'nacre-bash')
const keys = ['debian-archive-keyring.gpg', 'debian-archive-removed-keys.gpg']
  .map((name) => `/usr/share/keyrings/${name}`)
  .filter((file) => existsSync(file))

/** Suites with their archive, oldest bash first. */
const SUITES = {
  buster: 'http://archive.debian.org/debian',
  bullseye: 'http://deb.debian.org/debian',
  bookworm: 'http://deb.debian.org/debian',
  trixie: 'http://deb.debian.org/debian',
  sid: 'http://deb.debian.org/debian',
}

const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, shell: { type: 'string', multiple: true } },
})
const rows = []
for (const shell of values.shell ?? []) test(shell, shell)
if (values.shell === undefined) {
  for (const suite of values.only ?? Object.keys(SUITES)) {
    try {
      test(suite, fetchBash(suite))
    } catch (error) {
      rows.push([suite, '-', `skipped: ${firstLine(error)}`])
    }
  }
}
console.log('')
for (const row of rows) console.log(row.map((cell, at) => cell.padEnd([10, 20][at] ?? 0)).join(' '))
process.exit(rows.some(([, , result]) => result.includes('FAILED')) ? 1 : 0)

/** Runs both kinds of tests with a bash. */
function test(name, shell) {
  const version = ask(shell)
  if (version === undefined) {
    rows.push([name, '-', `skipped: ${shell} does not run on this machine`])
    return
  }
  console.log(`\n== ${name}: bash ${version}`)
  const env = { ...process.env, NACRE_NATIVE: 'debug', BASH_UNDER_TEST: shell, NACRE_TEST_BASH: shell }
  const passes = (program, ...args) =>
    spawnSync(program, args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0
  const results = {
    builtin: passes('cargo', 'test', '-q', '--locked', '-p', 'nacre-shell-builtin'),
    conformance: passes('node_modules/.bin/vitest', 'run', '--reporter=dot', '__test__/conformance'),
  }
  const words = Object.entries(results).map(([kind, passed]) => `${kind} ${passed ? 'passed' : 'FAILED'}`)
  rows.push([name, version, words.join(', ')])
}

/** The path of a suite's bash, which is downloaded when it is not in the cache. */
function fetchBash(suite) {
  const directory = path.join(cache, suite)
  const shell = ['usr/bin/bash', 'bin/bash'].map((name) => path.join(directory, 'root', name))
  const found = () => shell.find((file) => existsSync(file))
  if (!found()) download(suite, directory, ['bash'])
  const file = found()
  if (file === undefined) throw new Error('the package has no bash')
  if (ask(file) === undefined) giveLibraries(suite, directory, file)
  return file
}

/** Makes a bash use the C library of its own suite. */
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

/** Downloads packages of a suite and unpacks them into `root`. */
function download(suite, directory, packages) {
  const archive = SUITES[suite]
  if (archive === undefined) throw new Error(`unknown suite, known: ${Object.keys(SUITES).join(', ')}`)
  for (const name of ['lists/partial', 'archives/partial', 'root'])
    mkdirSync(path.join(directory, name), { recursive: true })
  writeFileSync(path.join(directory, 'status'), '')
  const signed = keys.length > 0 ? `[signed-by=${keys.join(',')}] ` : ''
  writeFileSync(path.join(directory, 'sources.list'), `deb ${signed}${archive} ${suite} main\n`)
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
  const lists = readdirSync(path.join(directory, 'lists')).some((name) => name.includes('Packages'))
  if (!lists) run('apt-get', ['-qq', ...options, '--error-on=any', 'update'], directory)
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

/** The version of a bash, or undefined when it does not run. */
function ask(shell) {
  const { status, stdout } = spawnSync(shell, ['-c', 'echo "$BASH_VERSION"'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}

function firstLine(error) {
  return error.message.split('\n')[0]
}
