/**
 * Finds the tools that compile for a target: cargo, Rust's standard library, and zig.
 *
 * Rust is the one on PATH, or `RUSTC`, or the one that `node scripts/packages/fetch-rust.mjs` unpacked. Its standard
 * library is the target's compiled one (`rustup target add`). If there is none, it is compiled from source (`rustup
 * component add rust-src`).
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { fetchedRust, fetchedZig } from './cache.mjs'
import { Problem } from './problem.mjs'
import { TARGETS } from './targets.mjs'

/** The output of a program, or undefined if it does not run. */
function ask(program, args, env = {}) {
  try {
    const options = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], env: { ...process.env, ...env } }
    return execFileSync(program, args, options).trim()
  } catch {
    return undefined
  }
}

/** All tools for one target. Throws Problem, which explains what to install. */
export function findToolchain(name) {
  const target = TARGETS[name]
  if (target === undefined) {
    throw new Problem(`There is no target '${name}'; the targets are ${Object.keys(TARGETS).join(', ')}.`)
  }
  if (ask('cargo', ['--version']) === undefined) {
    throw new Problem(
      'nacre is built with Rust, and there is no cargo on PATH: install Rust from https://rustup.rs.',
    )
  }
  const zig = findZig()
  const part = ({ triple, zig: zigTarget }) => ({ triple, zig, zigTarget, rust: findRust(triple) })
  return { name, addon: part(target), supervisor: part(target.supervisor) }
}

/** The compiler, as variables for cargo, and whether its standard library must be compiled. */
function findRust(triple) {
  const own = { RUSTC: process.env.RUSTC ?? 'rustc' }
  const candidates = [own, fetchedRust()].filter((env) => env !== undefined)
  for (const env of candidates) if (hasLibrary(env, triple)) return { env, buildsLibrary: false }
  for (const env of candidates) if (hasSources(env)) return { env, buildsLibrary: true }
  throw new Problem(
    `Rust has no standard library for ${triple}: run \`rustup target add ${triple}\`, ` +
      'or `node scripts/packages/fetch-rust.mjs` where rustup cannot.',
  )
}

function hasLibrary(env, triple) {
  const directory = ask(env.RUSTC, ['--print', 'target-libdir', '--target', triple], env)
  if (directory === undefined || !existsSync(directory)) return false
  return readdirSync(directory).some((file) => /^libstd-.*\.rlib$/.test(file))
}

function hasSources(env) {
  const root = ask(env.RUSTC, ['--print', 'sysroot'], env)
  return root !== undefined && existsSync(path.join(root, 'lib/rustlib/src/rust/library/std/Cargo.toml'))
}

/** The executable: `ZIG`, the one on PATH, the one in Python's package, or the one that fetch-zig.mjs installed. */
function findZig() {
  const inPython = 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))'
  const candidates = [process.env.ZIG, 'zig', ask('python3', ['-c', inPython]), fetchedZig()]
  const found = candidates.find((zig) => zig !== undefined && ask(zig, ['version']) !== undefined)
  if (found !== undefined) return found
  throw new Problem(
    'The packages are linked with zig, and there is none: install zig 0.15, ' +
      'or run `node scripts/packages/fetch-zig.mjs`.',
  )
}
