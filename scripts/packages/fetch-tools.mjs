/**
 * Fetches what builds the package for this machine and is missing here, into a cache: zig, and Rust's sources for musl.
 *
 *   node scripts/packages/fetch-tools.mjs
 */
import { execFileSync } from 'node:child_process'
import { Problem } from './problem.mjs'
import { hostTarget } from './targets.mjs'
import { findToolchain } from './toolchain.mjs'

for (const name of ['fetch-zig.mjs', 'fetch-rust.mjs'])
  if (!isComplete()) execFileSync(process.execPath, [`${import.meta.dirname}/${name}`], { stdio: 'inherit' })

function isComplete() {
  try {
    findToolchain(hostTarget())
    return true
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}
