/**
 * Collects the files of a release in target/assets: the tarballs, the site, what the packages contain, and the SHA-256 of each file.
 * What they contain is software bills of materials in the format of CycloneDX: of npm packages, and of the crates in each native file.
 *
 *   npm run build:packages -- all && npm run docs:site && node scripts/release/assets.mjs
 */
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { CACHE } from '../packages/cache.mjs'
import { companions } from '../packages/companions.mjs'
import { main, Problem } from '../packages/problem.mjs'

const root = path.dirname(path.dirname(import.meta.dirname))
const output = path.join(root, 'target/assets')
/** The version of https://github.com/CycloneDX/cyclonedx-rust-cargo. */
const CARGO_CYCLONEDX = '0.5.9'
/** The native files, by the directories of their crates. */
const NATIVE = { '.': 'nacre-addon', 'crates/supervisor': 'nacre-supervisor' }

await main(() => {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  rmSync(output, { recursive: true, force: true })
  mkdirSync(output, { recursive: true })
  copyPackages(version)
  packSite(`nacre-site-${version}.tar.gz`)
  listPackages(`nacre-npm-${version}.cdx.json`)
  listCrates(version)
  const files = readdirSync(output).sort()
  writeFileSync(path.join(output, 'SHA256SUMS'), execFileSync('sha256sum', files, { cwd: output }))
  for (const file of [...files, 'SHA256SUMS']) console.log(`target/assets/${file}`)
})

function copyPackages(version) {
  const packages = path.join(root, 'target/packages')
  const names = existsSync(packages) ? readdirSync(packages) : []
  const built = names.filter((name) => name.endsWith(`-${version}.tgz`))
  if (built.length === 0) throw new Problem('No package is built. Run `npm run build:packages -- all`.')
  for (const name of built) copyFileSync(path.join(packages, name), path.join(output, name))
}

function packSite(name) {
  const site = path.join(root, 'docs/.vitepress/dist')
  if (!existsSync(site)) throw new Problem('The site is not built. Run `npm run docs:site`.')
  execFileSync('tar', ['-czf', path.join(output, name), '-C', site, '.'])
}

/** The npm packages that are inside the published ones, and those that they need. */
function listPackages(name) {
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'nacre-sbom-'))
  try {
    // npm takes a package for a tool if any package of the workspace uses it as one, so the workspace has no tools here.
    const project = path.join(scratch, 'nacre')
    for (const directory of ['.', ...companions(root).map((name) => path.join('packages', name))]) {
      const manifest = JSON.parse(readFileSync(path.join(root, directory, 'package.json'), 'utf8'))
      const { devDependencies, scripts, ...kept } = manifest
      mkdirSync(path.join(project, directory), { recursive: true })
      writeFileSync(path.join(project, directory, 'package.json'), JSON.stringify(kept))
    }
    copyFileSync(path.join(root, 'package-lock.json'), path.join(project, 'package-lock.json'))
    const npm = (...args) =>
      execFileSync('npm', [...args, '--package-lock-only', '--loglevel=error'], { cwd: project })
    npm('install', '--ignore-scripts', '--no-audit', '--no-fund')
    writeFileSync(path.join(output, name), npm('sbom', '--sbom-format=cyclonedx', '--sbom-type=library'))
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** The crates that are linked into each native file. */
function listCrates(version) {
  const tool = path.join(CACHE, `cargo-cyclonedx-${CARGO_CYCLONEDX}`)
  const program = path.join(tool, 'bin/cargo-cyclonedx')
  const quiet = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] }
  if (!existsSync(program)) {
    execFileSync(
      'cargo',
      ['install', '--quiet', '--locked', '--root', tool, `cargo-cyclonedx@${CARGO_CYCLONEDX}`],
      quiet,
    )
  }
  // It writes a file of this name beside the manifest of each crate.
  const name = 'nacre-sbom'
  const options = ['--format=json', '--spec-version=1.5', '--no-build-deps', `--override-filename=${name}`]
  execFileSync(program, ['cyclonedx', '--quiet', ...options], quiet)
  const crates = readdirSync(path.join(root, 'crates')).map((crate) => `crates/${crate}`)
  for (const directory of ['.', ...crates]) {
    const file = path.join(root, directory, `${name}.json`)
    const native = NATIVE[directory]
    if (native !== undefined) copyFileSync(file, path.join(output, `${native}-${version}.cdx.json`))
    rmSync(file, { force: true })
  }
}
