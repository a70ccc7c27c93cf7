/**
 * Compiles the addon and the supervisor for one target, in release mode.
 *
 * zig links the addon against the oldest supported C library. The supervisor is static, with musl. Each has its own target
 * directory, since their flags differ.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { Problem } from './problem.mjs'

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
const wrapper = fileURLToPath(new URL('zig-cc.mjs', import.meta.url))

/** Returns the paths of the addon, the supervisor and the builtin's object, which is embedded in the addon. */
export async function compile({ name, addon, supervisor }) {
  const shared = addon.triple.endsWith('musl') ? ['-C', 'target-feature=-crt-static'] : []
  // A panic ends the supervisor in any case.
  const small = { CARGO_PROFILE_RELEASE_OPT_LEVEL: 'z', CARGO_PROFILE_RELEASE_PANIC: 'abort' }
  const statically = ['-C', 'target-feature=+crt-static']
  // Concurrently: the final phase of a link-time optimized build uses only one processor.
  const [built, guard] = await Promise.all([
    cargo(`${name}-addon`, 'nacre', addon, shared),
    // Packages for the same processor share it.
    cargo(supervisor.triple, 'nacre-supervisor', supervisor, statically, small),
  ])
  return {
    addon: path.join(built, 'libnacre.so'),
    builtin: builtinObject(path.join(built, 'build')),
    supervisor: path.join(guard, 'nacre-supervisor'),
  }
}

/** Runs cargo and returns the directory of its output. */
async function cargo(name, crate, part, flags, profile = {}) {
  const { triple, rust } = part
  const directory = path.join(root, 'target', 'packages', 'build', name)
  const linker = zigCompiler(directory, part)
  const [upper, lower] = [triple.toUpperCase().replaceAll('-', '_'), triple.replaceAll('-', '_')]
  // zig has musl's own start files.
  const selfContained = triple.endsWith('musl') ? ['-C', 'link-self-contained=no'] : []
  const env = {
    ...process.env,
    ...rust.env,
    ...profile,
    [`CC_${lower}`]: linker,
    [`CARGO_TARGET_${upper}_LINKER`]: linker,
    [`CARGO_TARGET_${upper}_RUSTFLAGS`]: [...flags, ...selfContained].join(' '),
    CARGO_TARGET_DIR: directory,
    ...(rust.buildsLibrary ? { RUSTC_BOOTSTRAP: '1' } : {}),
  }
  const standardLibrary = rust.buildsLibrary ? ['-Zbuild-std=std,panic_unwind,panic_abort'] : []
  const args = [
    'build',
    '--quiet',
    '--release',
    '--locked',
    '--no-default-features',
    '--package',
    crate,
    '--target',
    triple,
    ...standardLibrary,
  ]
  const [code] = await once(
    spawn('cargo', args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] }),
    'exit',
  )
  if (code !== 0) throw new Problem(`${crate} does not compile for ${triple}; the reason is above.`)
  return path.join(directory, triple, 'release')
}

/** An executable that is `zig cc` for the target. */
function zigCompiler(directory, { zig, zigTarget }) {
  const file = path.join(directory, 'zig-cc')
  mkdirSync(path.dirname(file), { recursive: true })
  const words = [process.execPath, wrapper, zig, zigTarget].map(
    (word) => `'${word.replaceAll("'", "'\\''")}'`,
  )
  writeFileSync(file, `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`)
  chmodSync(file, 0o755)
  return file
}

/** The newest file: cargo keeps those of earlier builds. */
function builtinObject(directory) {
  const files = readdirSync(directory)
    .filter((name) => name.startsWith('nacre-shell-builtin-'))
    .map((name) => path.join(directory, name, 'out', 'nacre.so'))
    .map((file) => ({ file, time: statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((one, other) => other.time - one.time)
  return files[0].file
}
