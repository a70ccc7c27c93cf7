/**
 * Unpacks Rust from Debian's packages into a cache: a compiler, the standard library for glibc on both processors, and its
 * sources, from which the library for musl is compiled. For machines where rustup cannot add targets.
 *
 *   node scripts/packages/fetch-rust.mjs
 */
import { renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { createApt, sources } from '../apt.mjs'
import { fetchedRust, RUST_ROOT } from './cache.mjs'
import { main, Problem } from './problem.mjs'

/** Debian has a current Rust in addition to the stable one, for browsers. */
const PACKAGES = ['rustc-web', 'libstd-rust-web-dev', 'libstd-rust-web-dev:arm64', 'rust-web-src']

await main(() => {
  if (fetchedRust() !== undefined) return console.log(fetchedRust().RUSTC)
  const directory = path.dirname(RUST_ROOT)
  const apt = createApt(directory, sources('bookworm'), ['amd64', 'arm64'])
  // The names of the compiler's libraries contain the version.
  const runtime = dependency(apt.dependsOn('libstd-rust-web-dev'), /libstd-rust-web-[\d.]+/)
  const llvm = dependency(apt.dependsOn(runtime), /libllvm\d+/)
  const unpacked = path.join(directory, 'unpacked')
  apt.unpack([...PACKAGES, runtime, llvm], unpacked)
  // Complete only from here on.
  rmSync(RUST_ROOT, { recursive: true, force: true })
  renameSync(unpacked, RUST_ROOT)
  console.log(fetchedRust().RUSTC)
})

function dependency(text, pattern) {
  const found = pattern.exec(text)?.[0]
  if (found === undefined)
    throw new Problem(`Debian's package of Rust names no dependency like ${pattern.source}.`)
  return found
}
