/**
 * Runs the behaviour tests on each version of Node.js that nacre supports, after a debug build.
 *
 *   node scripts/test-nodes.mjs             all versions
 *   node scripts/test-nodes.mjs 24 [FILE]   one of them, and only these files
 *
 * The versions are npm packages, installed in target/nodes.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const versions = ['20.19.0', '22.23.3', '24.21.0']

const [wanted, ...files] = process.argv.slice(2)
const chosen = versions.filter((version) => wanted === undefined || version.startsWith(`${wanted}.`))
if (chosen.length === 0) {
  console.error(`there is no version '${wanted}' in the list: ${versions.join(', ')}`)
  process.exit(2)
}
const failed = chosen.filter((version) => !passes(version))
console.log(failed.length === 0 ? `passed on ${chosen.join(', ')}` : `failed on ${failed.join(', ')}`)
process.exit(failed.length === 0 ? 0 : 1)

function passes(version) {
  const directory = path.join(install(version), 'node_modules/node/bin')
  console.log(`== Node.js ${version}`)
  // The tests also start programs by the name `node`.
  const env = { ...process.env, NACRE_NATIVE: 'debug', PATH: `${directory}:${process.env.PATH}` }
  const vitest = path.join(root, 'node_modules/vitest/vitest.mjs')
  const args = [vitest, 'run', '--project', 'behaviour', ...files]
  return spawnSync(path.join(directory, 'node'), args, { cwd: root, env, stdio: 'inherit' }).status === 0
}

/** The directory where npm has installed this version. */
function install(version) {
  const directory = path.join(root, 'target/nodes', version)
  if (existsSync(path.join(directory, 'node_modules/node/bin/node'))) return directory
  mkdirSync(directory, { recursive: true })
  writeFileSync(path.join(directory, 'package.json'), '{"private":true}\n')
  const args = ['install', '--no-audit', '--no-fund', '--save-exact', `node@${version}`]
  const { status } = spawnSync('npm', args, { cwd: directory, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
  return directory
}
