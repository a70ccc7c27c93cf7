/**
 * Unpacks Rust from Debian's packages into a cache: a compiler, the standard library for glibc on both processors, and
 * its sources, of which the one for musl is compiled. For machines where rustup cannot add targets.
 *
 *   node scripts/packages/fetch-rust.mjs
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fetchedRust, RUST_ROOT } from './cache.mjs'
import { main, Problem } from './problem.mjs'

const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
const SOURCES = [
  `deb [signed-by=${KEYS}] http://deb.debian.org/debian bookworm main`,
  `deb [signed-by=${KEYS}] http://deb.debian.org/debian-security bookworm-security main`,
]

/** Debian keeps a current Rust beside the stable one, for browsers. */
const PACKAGES = ['rustc-web', 'libstd-rust-web-dev', 'libstd-rust-web-dev:arm64', 'rust-web-src']

await main(() => {
  if (fetchedRust() !== undefined) return console.log(fetchedRust().RUSTC)
  const directory = path.dirname(RUST_ROOT)
  for (const name of ['lists/partial', 'archives/partial', 'unpacked']) {
    mkdirSync(path.join(directory, name), { recursive: true })
  }
  writeFileSync(path.join(directory, 'status'), '')
  writeFileSync(path.join(directory, 'sources.list'), `${SOURCES.join('\n')}\n`)
  const apt = (program, ...args) => run(directory, program, ['-qq', ...options(directory), ...args])
  apt('apt-get', 'update')
  apt('apt-get', 'download', ...PACKAGES)
  // The libraries of the compiler have the version in their names.
  const runtime = dependency(apt('apt-cache', 'depends', 'libstd-rust-web-dev'), /libstd-rust-web-[\d.]+/)
  const llvm = dependency(apt('apt-cache', 'depends', runtime), /libllvm\d+/)
  apt('apt-get', 'download', runtime, llvm)
  const unpacked = path.join(directory, 'unpacked')
  for (const name of readdirSync(directory).filter((entry) => entry.endsWith('.deb'))) {
    run(directory, 'dpkg-deb', ['-x', name, unpacked])
    rmSync(path.join(directory, name))
  }
  // Complete only from here on.
  rmSync(RUST_ROOT, { recursive: true, force: true })
  execFileSync('mv', [unpacked, RUST_ROOT])
  console.log(fetchedRust().RUSTC)
})

function options(directory) {
  return Object.entries({
    'APT::Architecture': 'amd64',
    'APT::Architectures::': 'arm64',
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Dir::Etc::sourcelist': path.join(directory, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::Lists': path.join(directory, 'lists'),
    'Dir::State::status': path.join(directory, 'status'),
    'Dir::Cache': directory,
  }).flatMap(([name, value]) => ['-o', `${name}=${value}`])
}

function dependency(text, pattern) {
  const found = pattern.exec(text)?.[0]
  if (found === undefined)
    throw new Problem(`Debian's package of Rust names no dependency like ${pattern.source}.`)
  return found
}

function run(cwd, program, args) {
  if (!existsSync(KEYS)) throw new Problem('This needs Debian, with the package debian-archive-keyring.')
  try {
    return execFileSync(program, args, {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 600_000,
    })
  } catch (error) {
    const reason = String(error.stderr ?? '')
      .split('\n')
      .find((line) => /^E: /.test(line))
    throw new Problem(`${program} failed: ${reason ?? error.message.split('\n')[0]}`)
  }
}
