/**
 * The locations where the fetch scripts put tools. Nothing is installed in the system.
 */
import { existsSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export const CACHE = path.join(
  process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'),
  'nacre-packages',
)

/** The Python environment with zig. */
export const ZIG_ENVIRONMENT = path.join(CACHE, 'zig')

/** The Python environment with kubernetes-validate, which includes the schemas of the API. */
export const KUBERNETES_VALIDATE_ENVIRONMENT = path.join(CACHE, 'kubernetes-validate')

/** Rust from Debian's packages, unpacked. */
export const RUST_ROOT = path.join(CACHE, 'rust', 'root')

/** The zig that fetch-zig.mjs installed, if any. */
export function fetchedZig() {
  const link = path.join(ZIG_ENVIRONMENT, 'bin', 'nacre-zig')
  return existsSync(link) ? link : undefined
}

/** Variables that make cargo use the Rust of fetch-rust.mjs, if any. */
export function fetchedRust() {
  const rustc = path.join(RUST_ROOT, 'usr/bin/rustc')
  if (!existsSync(rustc)) return undefined
  const libraries = ['usr/lib/x86_64-linux-gnu', 'usr/lib'].map((name) => path.join(RUST_ROOT, name))
  return { RUSTC: rustc, LD_LIBRARY_PATH: libraries.join(':') }
}
