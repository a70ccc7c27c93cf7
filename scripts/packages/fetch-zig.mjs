/**
 * Installs zig from the Python package index into a separate cache.
 *
 *   node scripts/packages/fetch-zig.mjs
 */
import { execFileSync } from 'node:child_process'
import { rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { fetchedZig, ZIG_ENVIRONMENT } from './cache.mjs'
import { main } from './problem.mjs'
import { installPython } from './python.mjs'

const VERSION = '0.15.2'

await main(() => {
  const python = installPython(ZIG_ENVIRONMENT, `ziglang==${VERSION}`)
  const where = 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))'
  const zig = execFileSync(python, ['-c', where], { encoding: 'utf8' }).trim()
  const link = path.join(ZIG_ENVIRONMENT, 'bin', 'nacre-zig')
  rmSync(link, { force: true })
  symlinkSync(zig, link)
  console.log(fetchedZig())
})
