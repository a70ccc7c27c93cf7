/**
 * Runs test files on Bun with the package of another platform, in such a system.
 *
 *   node scripts/packages/test-on.mjs --libc musl [FILE...]
 *
 * The package must be in `target/packages`: `npm run build:packages -- linux-x64-musl`. Without files, runs the contract
 * suite and the comparison with bash.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { openMusl } from './musl.mjs'
import { main, Problem } from './problem.mjs'

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
const packages = path.join(root, 'target', 'packages')
const FOLDERS = ['__test__/contract', '__test__/conformance', '__test__/exec']

await main(() => {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { libc: { type: 'string' } } })
  if (values.libc !== 'musl')
    throw new Problem('Usage: node scripts/packages/test-on.mjs --libc musl [FILE...]')
  const native = unpack('linux-x64-musl')
  const { devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const { enter, bun } = openMusl(devDependencies.bun)
  const files = positionals.length > 0 ? positionals : FOLDERS.flatMap(testsIn)
  const [program, ...words] = enter()
  const test = [bun, 'test', '--timeout', '20000', '--only-failures', ...files]
  const env = { ...process.env, NACRE_NATIVE_PATH: native }
  try {
    execFileSync(program, [...words, ...test], { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] })
  } catch {
    throw new Problem('A test failed; the reason is above.')
  }
})

/** The native files of a package, in a directory. */
function unpack(target) {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const tarball = path.join(packages, `nacre-${target}-${version}.tgz`)
  if (!existsSync(tarball))
    throw new Problem(`${tarball} does not exist: run \`npm run build:packages -- ${target}\`.`)
  const directory = path.join(packages, 'unpacked', target)
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', directory])
  return directory
}

function testsIn(folder) {
  const names = readdirSync(path.join(root, folder)).filter((name) => name.endsWith('.test.ts'))
  return names.filter((name) => !name.endsWith('.slow.test.ts')).map((name) => `${folder}/${name}`)
}
