/**
 * Publishes the tarballs in `target/packages`: the native packages first, since `nacre` depends on them,
 * and then its companions.
 *
 *   node scripts/publish.mjs [--dry-run]
 *
 * Skips versions that are already in the registry, so that an interrupted publication can be repeated.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { companions } from './packages/companions.mjs'
import { main, Problem } from './packages/problem.mjs'
import { CONTAINERS, containerName, KERNEL, packageName, TARGETS } from './packages/targets.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

await main(() => {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const packages = [
    ...Object.keys(TARGETS).map((name) => ({
      name: packageName(name),
      file: `nacre-${name}-${version}.tgz`,
    })),
    ...CONTAINERS.map((cpu) => ({
      name: containerName(cpu),
      file: `nacre-container-${cpu}-${version}.tgz`,
    })),
    { name: KERNEL, file: `nacre-kernel-x64-${version}.tgz` },
    { name: 'nacre', file: `nacre-${version}.tgz` },
    ...companions(root).map((name) => ({ name: `@nacre/${name}`, file: `nacre-${name}-${version}.tgz` })),
  ].map(({ name, file }) => ({ name, file: path.join(root, 'target', 'packages', file) }))
  const missing = packages.filter(({ file }) => !existsSync(file)).map(({ name }) => name)
  if (missing.length > 0) {
    throw new Problem(
      `These packages are not built: ${missing.join(', ')}. Run \`npm run build:packages -- all\` and \`npm run build:kernel\`.`,
    )
  }
  const isDryRun = process.argv.includes('--dry-run')
  for (const { name, file } of packages) {
    if (!isDryRun && isPublished(name, version)) console.log(`${name} ${version} is published already`)
    else publish(file, isDryRun)
  }
})

function isPublished(name, version) {
  return (
    spawnSync('npm', ['view', `${name}@${version}`, 'version'], { encoding: 'utf8' }).stdout.trim() ===
    version
  )
}

function publish(file, isDryRun) {
  const how = isDryRun ? ['--dry-run'] : ['--provenance']
  execFileSync('npm', ['publish', '--ignore-scripts', '--access', 'public', ...how, file], {
    stdio: 'inherit',
  })
}
