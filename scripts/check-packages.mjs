/**
 * Checks the built packages with publint and attw: what they export, and the types of that.
 *
 *   npm run build:packages && node scripts/check-packages.mjs
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { run } from './build.mjs'
import { companions } from './packages/companions.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const output = path.join(root, 'target', 'packages')
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

for (const name of [undefined, ...companions(root)]) {
  const staged = path.join(output, 'staged', name ?? 'nacre')
  await lint(staged)
  const tarball = path.join(output, `${['nacre', name, version].filter(Boolean).join('-')}.tgz`)
  // nacre and its companions share some entries among themselves, which have no types.
  const { exports } = JSON.parse(readFileSync(path.join(staged, 'package.json'), 'utf8'))
  const untyped = Object.keys(exports).filter((entry) => exports[entry].types === undefined)
  await run('node_modules/.bin/attw', [tarball, '--profile', 'esm-only', '--exclude-entrypoints', ...untyped])
}

/** Throws for what publint finds, except that the types of `require` are those of an ES module: that is what it returns. */
async function lint(directory) {
  const { messages, pkg } = await publint({ pkgDir: directory, strict: true, level: 'warning' })
  const found = messages.filter(({ code }) => code !== 'EXPORTS_TYPES_INVALID_FORMAT')
  if (found.length > 0)
    throw new Error(`${directory}: ${found.map((message) => formatMessage(message, pkg)).join('; ')}`)
}
