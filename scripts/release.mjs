/**
 * Makes a release of the last commit: its version and changelog, all packages, the site, and the files beside them. Tests the
 * packages and the image as users get them.
 *
 *   npm run release -- [--dry-run]
 *
 * All of it happens in a clone, so that nothing else gets in. Its files come to target/assets. Without --dry-run, the commit
 * with the version and its tag come here too: to push the tag publishes them (.github/workflows/release.yml).
 */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { main, Problem } from './packages/problem.mjs'

const root = path.dirname(import.meta.dirname)

/** What happens in the clone, in this order. */
const STEPS = [
  ['npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund'],
  ['node', 'scripts/release/version.mjs'],
  ['node', 'scripts/packages/fetch-tools.mjs', 'all'],
  ['npm', 'run', 'build:packages', '--', 'all'],
  ['npm', 'run', 'build:kernel'],
  ['npm', 'run', 'check:package'],
  ['npm', 'run', 'docs:site'],
  ['npm', 'run', 'test:packages', '--', '--built'],
  ['npm', 'run', 'test:image', '--', '--built'],
  ['node', 'scripts/release/assets.mjs'],
  ['node', 'scripts/publish.mjs', '--dry-run'],
]

await main(() => {
  const words = process.argv.slice(2)
  if (words.some((word) => word !== '--dry-run')) throw new Problem('Usage: npm run release -- [--dry-run]')
  const clone = mkdtempSync(path.join(os.tmpdir(), 'nacre-release-'))
  try {
    run(root, 'git', 'clone', '--quiet', root, clone)
    for (const step of STEPS) run(clone, ...step)
    const assets = path.join(root, 'target/assets')
    rmSync(assets, { recursive: true, force: true })
    cpSync(path.join(clone, 'target/assets'), assets, { recursive: true })
    if (words.length === 0) take(clone)
    else console.log('Nothing is published. The files are in target/assets.')
  } finally {
    rmSync(clone, { recursive: true, force: true })
  }
})

function run(cwd, ...step) {
  const [program, ...args] = step
  const begun = Date.now()
  console.log(`> ${step.join(' ')}`)
  try {
    execFileSync(program, args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] })
  } catch {
    throw new Problem(`There is no release: ${step.join(' ')} failed; the reason is above.`)
  }
  console.log(`  ${((Date.now() - begun) / 1000).toFixed(0)} s`)
}

/** Commits the version, tags it and brings both here. */
function take(clone) {
  const ask = (cwd, ...args) => execFileSync('git', args, { cwd, encoding: 'utf8' }).trim()
  const { version } = JSON.parse(readFileSync(path.join(clone, 'package.json'), 'utf8'))
  for (const key of ['user.name', 'user.email']) ask(clone, 'config', key, ask(root, 'config', key))
  ask(clone, 'add', '--all')
  // A first release has the version that is there already.
  if (ask(clone, 'status', '--porcelain') !== '') ask(clone, 'commit', '--message', `Release ${version}`)
  ask(clone, 'tag', '--annotate', `v${version}`, '--message', `nacre ${version}`)
  run(root, 'git', 'fetch', '--quiet', clone, 'tag', `v${version}`)
  run(root, 'git', 'merge', '--ff-only', `v${version}`)
  console.log(`To publish it: git push --atomic origin HEAD v${version}`)
}
