/**
 * Checks the built packages with publint and attw: what they export, and the types of that.
 *
 *   npm run build:packages && node scripts/check-packages.mjs
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from './build.mjs'
import { companions } from './packages/companions.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const output = path.join(root, 'target', 'packages')
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

for (const name of [undefined, ...companions(root)]) {
  const staged = path.join(output, 'staged', name ?? 'nacre')
  await run('node_modules/.bin/publint', ['--strict', staged])
  const tarball = path.join(output, `${['nacre', name, version].filter(Boolean).join('-')}.tgz`)
  // nacre and its companions share some entries among themselves, which have no types.
  const { exports } = JSON.parse(readFileSync(path.join(staged, 'package.json'), 'utf8'))
  const untyped = Object.keys(exports).filter((entry) => exports[entry].types === undefined)
  await run('node_modules/.bin/attw', [tarball, '--profile', 'esm-only', '--exclude-entrypoints', ...untyped])
}
