/**
 * Fetches what builds the packages and is missing here, into a cache: zig, and Rust's sources for musl.
 *
 *   node scripts/packages/fetch-tools.mjs [TARGET... | all]      default: for this machine
 */
import { execFileSync } from 'node:child_process'
import { Problem } from './problem.mjs'
import { chosenTargets } from './targets.mjs'
import { findToolchain } from './toolchain.mjs'

for (const name of ['fetch-zig.mjs', 'fetch-rust.mjs'])
  if (!isComplete()) execFileSync(process.execPath, [`${import.meta.dirname}/${name}`], { stdio: 'inherit' })

function isComplete() {
  try {
    chosenTargets(process.argv.slice(2)).forEach(findToolchain)
    return true
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}
