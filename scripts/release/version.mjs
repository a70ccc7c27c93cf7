/**
 * Gives the repository the version of the next release, and CHANGELOG.md its section. The changes since the last release are
 * files in .changeset, in the format of Changesets; without any, the version stays as it is. Keeps the numbers of the benchmark,
 * which shows them beside later ones. Prints the version.
 *
 *   node scripts/release/version.mjs
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import applyReleasePlan from '@changesets/apply-release-plan'
import assembleReleasePlan from '@changesets/assemble-release-plan'
import { read } from '@changesets/config'
import readChanges from '@changesets/read'
import { keepResults } from '../../bench/released.mjs'
import { companions } from '../packages/companions.mjs'
import { main, Problem } from '../packages/problem.mjs'
import { notes } from './notes.mjs'

const root = path.dirname(path.dirname(import.meta.dirname))

/** The files that have the version, but for the lock files. */
const FILES = [
  'package.json',
  ...companions(root).map((name) => `packages/${name}/package.json`),
  'Cargo.toml',
  'lib/addon/platforms.ts',
  'deploy/agent-sandbox/template.yaml',
  'deploy/compose.yaml',
  'deploy/kubernetes.yaml',
  'deploy/queue.yaml',
  'docs/deploy.md',
]
/** How the version of nacre is written: in manifests, in code, and as the tag of an image. */
const PLACES =
  /((?:^version|VERSION) = ["']|"(?:version|nacre|@nacre\/[\w-]+)": "|\bnacre(?:-worker)?:)(\d[\w.-]*)/gm

await main(async () => {
  const { version: before } = manifest()
  await applyChanges()
  const { version } = manifest()
  if (execFileSync('git', ['tag', '--list', `v${version}`], { cwd: root }).length > 0) {
    throw new Problem(
      `Version ${version} is released already, and .changeset has no change since. CONTRIBUTING.md says how to describe one.`,
    )
  }
  notes(root, version)
  if (version !== before) setVersion(before, version)
  keepResults(version)
  console.log(version)
})

/** All packages have one version and one changelog, which are those of nacre. */
async function applyChanges() {
  const nacre = { dir: root, packageJson: manifest() }
  const packages = { tool: 'root', root: nacre, packages: [nacre] }
  try {
    const config = await read(root, packages)
    const plan = assembleReleasePlan(await readChanges(root), packages, config)
    await applyReleasePlan(plan, packages, config)
  } catch (error) {
    throw new Problem(`The changes in .changeset cannot be applied: ${error.message}`)
  }
}

function setVersion(before, version) {
  for (const file of FILES) {
    const name = path.join(root, file)
    const text = readFileSync(name, 'utf8')
    const changed = text.replace(PLACES, (all, place, found) => (found === before ? place + version : all))
    if (changed === text) throw new Problem(`${file} has no version ${before}.`)
    writeFileSync(name, changed)
  }
  const quiet = { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] }
  const options = ['--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  execFileSync('npm', ['install', ...options], quiet)
  for (const directory of ['.', 'fuzz'])
    execFileSync(
      'cargo',
      ['update', '--quiet', '--workspace', '--manifest-path', `${directory}/Cargo.toml`],
      quiet,
    )
}

function manifest() {
  return JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
}
