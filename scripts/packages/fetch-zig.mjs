/**
 * Installs zig from the Python package index, where it is a package, into a cache of its own.
 *
 *   node scripts/packages/fetch-zig.mjs
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { fetchedZig, ZIG_ENVIRONMENT } from './cache.mjs'
import { main, Problem } from './problem.mjs'

const VERSION = '0.15.2'

await main(() => {
  const options = { stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 }
  const python = path.join(ZIG_ENVIRONMENT, 'bin', 'python')
  try {
    mkdirSync(ZIG_ENVIRONMENT, { recursive: true })
    execFileSync('python3', ['-m', 'venv', ZIG_ENVIRONMENT], options)
    execFileSync(python, ['-m', 'pip', 'install', '--quiet', `ziglang==${VERSION}`], options)
  } catch (error) {
    throw new Problem(`zig cannot be installed with Python's pip: ${error.message.split('\n')[0]}`)
  }
  const where = 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))'
  const zig = execFileSync(python, ['-c', where], { encoding: 'utf8' }).trim()
  const link = path.join(ZIG_ENVIRONMENT, 'bin', 'nacre-zig')
  rmSync(link, { force: true })
  symlinkSync(zig, link)
  console.log(fetchedZig())
})
