/**
 * Tests the packages as they are published: their installation, and the contract suite with the tarball's native part
 * instead of the debug build. Run before a release, on each kind of machine.
 *
 *   node scripts/test-packages.mjs [--built]
 *
 * --built: the tarballs are already in `target/packages`. Otherwise, all four targets are built first.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { companions } from './packages/companions.mjs'
import { main, Problem } from './packages/problem.mjs'
import { hostTarget, packageName } from './packages/targets.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const output = path.join(root, 'target', 'packages')

await main(() => {
  if (!process.argv.includes('--built')) node({}, 'scripts/build-packages.mjs', 'all')
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const target = hostTarget()
  const tarball = path.join(output, `nacre-${target}-${version}.tgz`)
  if (!existsSync(tarball))
    throw new Problem(`${packageName(target)} is not built: ${tarball} does not exist.`)
  const unpacked = path.join(output, 'unpacked')
  rmSync(unpacked, { recursive: true, force: true })
  mkdirSync(unpacked, { recursive: true })
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', unpacked])

  const packages = companions(root).map((name) => `packages/${name}`)
  node({}, 'node_modules/typescript/bin/tsc', '-b', ...packages)
  node({}, 'node_modules/bun/install.js')
  node({}, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'packages')
  const env = { NACRE_NATIVE_PATH: unpacked }
  const directory = '__test__/contract'
  node(env, 'node_modules/vitest/vitest.mjs', 'run', directory)
  const tests = readdirSync(path.join(root, directory)).filter((name) => name.endsWith('.test.ts'))
  const files = tests.map((name) => `${directory}/${name}`)
  run(env, path.join(root, 'node_modules/.bin/bun'), 'test', '--timeout', '20000', ...files)
})

function node(env, ...args) {
  run(env, process.execPath, ...args)
}

function run(env, program, ...args) {
  try {
    const options = { cwd: root, env: { ...process.env, ...env }, stdio: ['ignore', 'inherit', 'inherit'] }
    execFileSync(program, args, options)
  } catch {
    throw new Problem(`${path.basename(program)} ${args[0]} failed; the reason is above.`)
  }
}
