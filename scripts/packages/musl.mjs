/**
 * A musl system on this machine, for one program: musl's loader, bash built for musl, and Bun for musl. Everything else is
 * the machine's own. Built from packages of Debian, npm and PyPI; nothing is installed.
 */
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { createApt, sources } from '../apt.mjs'
import { fetchSource } from '../debian.mjs'
import { CACHE } from './cache.mjs'
import { Problem } from './problem.mjs'

/** Newer than bookworm's, in which Bun crashes. */
const RELEASE = 'trixie'
/** Its wheel for musl includes the C++ library, which Bun needs. */
const WHEEL = { name: 'greenlet==3.5.6', platform: 'musllinux_1_2_x86_64', python: '3.12' }
const DIRECTORY = path.join(CACHE, 'musl')
const LIBRARIES = path.join(DIRECTORY, 'libraries')
const BASH = path.join(DIRECTORY, 'bash')
const LOADER = 'ld-musl-x86_64.so.1'

/** Creates missing parts. Returns the first words of a command in that system, and its Bun. */
export function openMusl(bunVersion) {
  if (process.arch !== 'x64') throw new Problem('The tests on musl need an x64 machine.')
  if (process.getuid() !== 0) throw new Problem('The tests on musl need root, for mounts of their own.')
  const unpacked = path.join(DIRECTORY, 'root')
  if (!existsSync(path.join(LIBRARIES, LOADER))) makeLibraries(unpacked)
  if (!existsSync(BASH)) makeBash(unpacked)
  return { enter, bun: makeBun(bunVersion) }
}

/** Mounts visible only to the command and its children: the loader next to the libraries, and bash in bash's place. */
const MOUNTS = [
  `mount -t overlay -o lowerdir=${LIBRARIES}:/usr/lib overlay /usr/lib`,
  `mount --bind ${BASH} "$(readlink -f /bin/bash)"`,
]

function enter(mounts = MOUNTS) {
  return [
    'unshare',
    '--mount',
    '--propagation',
    'private',
    'sh',
    '-c',
    `${mounts.join(' && ')} && exec "$@"`,
    'sh',
  ]
}

function makeLibraries(unpacked) {
  createApt(DIRECTORY, sources(RELEASE), ['amd64']).unpack(['musl', 'musl-dev', 'musl-tools'], unpacked)
  const wheel = path.join(DIRECTORY, 'wheel')
  rmSync(wheel, { recursive: true, force: true })
  mkdirSync(wheel, { recursive: true })
  const which = [
    '--platform',
    WHEEL.platform,
    '--python-version',
    WHEEL.python,
    '--only-binary=:all:',
    '--no-deps',
  ]
  run('python3', ['-m', 'pip', 'download', '--quiet', ...which, WHEEL.name], { cwd: wheel })
  run('python3', ['-m', 'zipfile', '-e', readdirSync(wheel)[0], 'unpacked'], { cwd: wheel })
  mkdirSync(LIBRARIES, { recursive: true })
  const carried = path.join(wheel, 'unpacked/greenlet.libs')
  for (const name of readdirSync(carried)) {
    // The file names in the wheel contain a hash, and the libraries load each other by those names.
    const plain = name.startsWith('libstdc++') ? 'libstdc++.so.6' : 'libgcc_s.so.1'
    for (const copy of [name, plain]) copyFileSync(path.join(carried, name), path.join(LIBRARIES, copy))
  }
  // Complete only with this file.
  copyFileSync(path.join(unpacked, 'usr/lib/x86_64-linux-musl/libc.so'), path.join(LIBRARIES, LOADER))
  run('chmod', ['755', path.join(LIBRARIES, LOADER)])
}

/** Compiled where musl programs run, since configure executes many. */
function makeBash(unpacked) {
  const specs = path.join(DIRECTORY, 'musl-gcc.specs')
  const given = readFileSync(path.join(unpacked, 'usr/lib/x86_64-linux-musl/musl-gcc.specs'), 'utf8')
  writeFileSync(specs, given.replaceAll('/usr/', `${unpacked}/usr/`))
  const build = path.join(DIRECTORY, 'bash-build')
  rmSync(build, { recursive: true, force: true })
  mkdirSync(build)
  const configure = path.join(fetchSource(RELEASE), 'configure')
  const settings = ['--without-bash-malloc', '--disable-nls', '--prefix=/usr']
  // musl has its own versions of functions that bash includes.
  const flags = ['CFLAGS=-O1 -w', 'LDFLAGS=-Wl,-z,muldefs']
  const options = { cwd: build, env: { ...process.env, CC: `gcc -specs ${specs}` } }
  const [unshare, ...words] = enter(MOUNTS.slice(0, 1))
  run(unshare, [...words, configure, ...settings, ...flags], options)
  run(unshare, [...words, 'make', '-j2'], options)
  copyFileSync(path.join(build, 'bash'), BASH)
}

function makeBun(version) {
  const directory = path.join(DIRECTORY, `bun-${version}`)
  const bun = path.join(directory, 'node_modules/@oven/bun-linux-x64-musl/bin/bun')
  if (existsSync(bun)) return bun
  mkdirSync(directory, { recursive: true })
  writeFileSync(path.join(directory, 'package.json'), '{ "private": true }')
  const args = ['install', '--ignore-scripts', '--force', '--no-audit', '--no-fund', '--no-save']
  run('npm', [...args, `@oven/bun-linux-x64-musl@${version}`], { cwd: directory })
  return bun
}

function run(program, args, options = {}) {
  try {
    execFileSync(program, args, {
      ...options,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      maxBuffer: 1e8,
    })
  } catch (error) {
    const lines = `${error.stdout ?? ''}${error.stderr ?? ''}`.trim().split('\n')
    throw new Problem(`${program} ${args[0]} failed: ${lines.slice(-10).join('\n')}`)
  }
}
