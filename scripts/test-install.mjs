/**
 * Builds the packages for this machine and tests their installation from the tarballs.
 *
 *   node scripts/test-install.mjs
 *
 * Missing tools are fetched into a cache: zig, and Rust's sources for musl if rustup has no target.
 */
import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { main, Problem } from './packages/problem.mjs'
import { hostTarget } from './packages/targets.mjs'
import { findToolchain } from './packages/toolchain.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

await main(() => {
  const target = hostTarget()
  const steps = ['scripts/packages/fetch-zig.mjs', 'scripts/packages/fetch-rust.mjs']
  for (const step of steps) if (!isComplete(target)) node(step)
  node('scripts/build-packages.mjs', target)
  node('node_modules/vitest/vitest.mjs', 'run', '--project', 'packages')
})

function isComplete(target) {
  try {
    findToolchain(target)
    return true
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}

function node(...args) {
  try {
    execFileSync(process.execPath, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  } catch {
    throw new Problem(`${args[0]} failed; the reason is above.`)
  }
}
