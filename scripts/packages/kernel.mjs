/** The kernel of virtual machines, built from Debian's source. */

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createApt, sources } from '../apt.mjs'
import { CACHE } from './cache.mjs'
import { Problem } from './problem.mjs'

/** Debian's package with the source. */
const SOURCE = 'linux-source-6.1'
/** What compiles it, beside a C compiler, make and bc. */
const TOOLS = ['flex', 'bison', 'm4', 'libelf-dev', 'libelf1', 'zlib1g-dev']
const MINUTES = 60_000

/**
 * The directory with `vmlinux`, its configuration `config`, the licence `COPYING`, and `version`: that of Debian's package.
 * It is built once for a configuration.
 */
export function buildKernel(root) {
  if (process.arch !== 'x64') throw new Problem('The kernel is built on x64 only.')
  const fragment = path.join(root, 'crates/vm/kernel/kernel.config')
  const digest = createHash('sha256').update(readFileSync(fragment)).digest('hex').slice(0, 12)
  const place = path.join(CACHE, 'own-kernel')
  const built = path.join(place, digest)
  if (existsSync(built)) return built
  const unpacked = path.join(place, 'unpacked')
  for (const directory of [unpacked, `${built}.new`]) rmSync(directory, { recursive: true, force: true })
  const apt = createApt(place, sources('bookworm'), ['amd64'])
  apt.unpack([SOURCE, ...TOOLS], unpacked)
  const source = path.join(unpacked, 'usr/src', SOURCE)
  run('tar', ['-xf', `${source}.tar.xz`], path.dirname(source), {})
  const at = (name) => path.join(unpacked, name)
  const library = at('usr/lib/x86_64-linux-gnu')
  const env = {
    PATH: `${at('usr/bin')}:${process.env.PATH}`,
    BISON_PKGDATADIR: at('usr/share/bison'),
    M4: at('usr/bin/m4'),
    LD_LIBRARY_PATH: library,
    // Equal sources give equal kernels.
    KBUILD_BUILD_TIMESTAMP: '1970-01-01',
    KBUILD_BUILD_USER: 'nacre',
    KBUILD_BUILD_HOST: 'nacre',
  }
  const host = [`HOSTCFLAGS=-I${at('usr/include')}`, `HOSTLDFLAGS=-L${library}`]
  const make = (...words) => run('make', ['-s', ...host, ...words], source, env)
  make('tinyconfig')
  run('scripts/kconfig/merge_config.sh', ['-m', '.config', fragment], source, env)
  make('olddefconfig')
  refuseMissing(readFileSync(fragment, 'utf8'), readFileSync(path.join(source, '.config'), 'utf8'))
  make(`-j${os.availableParallelism()}`, 'vmlinux')
  mkdirSync(`${built}.new`)
  for (const [from, to] of [['vmlinux'], ['.config', 'config'], ['COPYING'], ['LICENSES']])
    cpSync(path.join(source, from), path.join(`${built}.new`, to ?? from), { recursive: true })
  run('strip', ['vmlinux'], `${built}.new`, env)
  writeFileSync(path.join(`${built}.new`, 'version'), `${apt.version(SOURCE)}\n`)
  renameSync(`${built}.new`, built)
  rmSync(unpacked, { recursive: true })
  return built
}

/** Throws if the kernel would lack something: an option that depends on another one is dropped without a word. */
function refuseMissing(wanted, has) {
  const lines = new Set(has.split('\n'))
  const missing = wanted.split('\n').filter((line) => line.startsWith('CONFIG_') && !lines.has(line))
  if (missing.length > 0) throw new Problem(`The kernel's configuration cannot have ${missing.join(', ')}.`)
}

function run(program, args, cwd, env) {
  const options = {
    cwd,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }
  try {
    return execFileSync(program, args, { ...options, timeout: 60 * MINUTES, maxBuffer: 1 << 28 })
  } catch (error) {
    throw new Problem(`${program} ${args.at(-1)} failed:\n${String(error.stderr ?? error).slice(-2000)}`)
  }
}
