/**
 * Assembles the packages as they are published, checks them and packs them.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundle } from './bundle.mjs'
import { companions } from './companions.mjs'
import { findFaults as findElfFaults, readElf } from './elf.mjs'
import {
  companionManifest,
  containerManifest,
  findFaults as findManifestFaults,
  kernelManifest,
  mainManifest,
  platformManifest,
} from './manifest.mjs'
import { BUNDLER_NOTICES, crateNotices, noticeText, npmNotices, SYSTEM_NOTICES } from './notice.mjs'
import { Problem } from './problem.mjs'
import { writeRequired } from './require.mjs'
import { containerName, packageName, TARGETS } from './targets.mjs'

/** Assembles `nacre` in a directory. */
export async function stageMain(root, directory) {
  const source = readManifest(root)
  const manifest = mainManifest(source)
  check(root, manifest)
  prepare(directory)
  const packages = await bundle(root, source, path.join(directory, 'dist'))
  writeRequired(source.exports, directory)
  chmodSync(path.join(directory, source.bin.nacre), 0o755)
  for (const name of [...manifest.files, 'README.md', 'LICENSE'].filter(
    (name) => !['dist', 'NOTICE'].includes(name),
  )) {
    cpSync(path.join(root, name), path.join(directory, name), { recursive: true })
  }
  writeFileSync(
    path.join(directory, 'NOTICE'),
    noticeText('nacre', [...npmNotices(packages), ...BUNDLER_NOTICES]),
  )
  writeManifest(directory, manifest)
}

/** Assembles a companion package. Its dependencies are not bundled. */
export function stageCompanion(root, name, directory) {
  const source = path.join(root, 'packages', name)
  const manifest = companionManifest(readManifest(root), readManifest(source))
  check(root, manifest)
  prepare(directory)
  // Not its own `dist/`: that may have modules that have been renamed since.
  const plain = [
    '--composite',
    'false',
    '--incremental',
    'false',
    '--tsBuildInfoFile',
    'null',
    '--declaration',
    'false',
  ]
  compileTypeScript('-p', source, '--outDir', path.join(directory, 'dist'), ...plain)
  writeRequired(manifest.exports, directory)
  const types = 'dist/public.d.ts'
  if (existsSync(path.join(source, types)))
    copyFileSync(path.join(source, types), path.join(directory, types))
  // The console's page is bundled, not compiled.
  const page = path.join(source, 'dist/page')
  if (existsSync(page)) cpSync(page, path.join(directory, 'dist/page'), { recursive: true })
  for (const name of [...manifest.files.filter((name) => name !== 'dist'), 'README.md'])
    cpSync(path.join(source, name), path.join(directory, name), { recursive: true })
  copyFileSync(path.join(root, 'LICENSE'), path.join(directory, 'LICENSE'))
  writeManifest(directory, manifest)
}

/** Runs tsc. */
export function compileTypeScript(...args) {
  const tsc = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url))
  execFileSync(process.execPath, [tsc, ...args], { stdio: 'inherit' })
}

/** Assembles a platform package. `files` are the results of compile(). */
export function stagePlatform(root, name, files, directory) {
  for (const [kind, file] of Object.entries(files)) {
    const faults = findElfFaults(readElf(file), kind, TARGETS[name])
    if (faults.length > 0) throw new Problem(`The ${kind} of ${name} ${faults.join('; it ')}.`)
  }
  assemblePlatform(root, name, files, directory)
}

/** Assembles a platform package of the debug build in `built`, without its debug information: npm packs it faster. */
export function stageDebugPlatform(root, name, built, directory) {
  assemblePlatform(
    root,
    name,
    { addon: path.join(built, 'nacre.node'), supervisor: path.join(built, 'nacre-supervisor') },
    directory,
  )
  for (const file of ['nacre.node', 'nacre-supervisor'])
    execFileSync('strip', ['--strip-debug', path.join(directory, file)])
}

function assemblePlatform(root, name, files, directory) {
  const target = TARGETS[name]
  const manifest = platformManifest(readManifest(root), name)
  check(root, manifest)
  prepare(directory)
  copyFileSync(files.addon, path.join(directory, 'nacre.node'))
  copyFileSync(files.supervisor, path.join(directory, 'nacre-supervisor'))
  for (const file of ['nacre.node', 'nacre-supervisor']) chmodSync(path.join(directory, file), 0o755)
  copyFileSync(path.join(root, 'LICENSE'), path.join(directory, 'LICENSE'))
  const components = [...crateNotices(root, target.triple), ...SYSTEM_NOTICES]
  writeFileSync(path.join(directory, 'NOTICE'), noticeText(packageName(name), components))
  const readme = `# ${packageName(name)}\n\n${manifest.description}. Install \`nacre\`, which brings it along.\n`
  writeFileSync(path.join(directory, 'README.md'), readme)
  writeManifest(directory, manifest)
}

/**
 * Assembles the package for containers on a Mac, of staged platform packages for its processor. `staged` has their directories
 * by the C library, gnu and musl. The supervisor is the same in both.
 */
export function stageContainer(root, cpu, staged, directory) {
  const manifest = containerManifest(readManifest(root), cpu)
  check(root, manifest)
  prepare(directory)
  for (const [abi, platform] of Object.entries(staged)) {
    cpSync(path.join(platform, 'nacre.node'), path.join(directory, abi, 'nacre.node'))
    for (const name of ['nacre-supervisor', 'LICENSE', 'NOTICE'])
      cpSync(path.join(platform, name), path.join(directory, name))
  }
  const notice = path.join(directory, 'NOTICE')
  const text = readFileSync(notice, 'utf8')
  writeFileSync(notice, text.replaceAll(packageName(`linux-${cpu}-musl`), containerName(cpu)))
  const readme = `# ${manifest.name}\n\n${manifest.description}. Install \`nacre\`, which brings it along.\n`
  writeFileSync(path.join(directory, 'README.md'), readme)
  writeManifest(directory, manifest)
}

/** Assembles the package with the kernel that `buildKernel` has built. */
export function stageKernel(root, built, directory) {
  const manifest = kernelManifest(readManifest(root))
  check(root, manifest)
  prepare(directory)
  const licences = ['LICENSES/preferred/GPL-2.0', 'LICENSES/exceptions/Linux-syscall-note']
  for (const name of ['vmlinux', 'config', 'COPYING', ...licences])
    cpSync(path.join(built, name), path.join(directory, name))
  const fragment = 'crates/vm/kernel/kernel.config'
  cpSync(path.join(root, fragment), path.join(directory, 'kernel.config'))
  const version = readFileSync(path.join(built, 'version'), 'utf8').trim()
  const [own, others] = [
    `https://snapshot.debian.org/package/linux/${encodeURIComponent(version)}/`,
    manifest.repository.url,
  ]
  writeFileSync(
    path.join(directory, 'README.md'),
    `# ${manifest.name}

${manifest.description}. With it beside \`nacre\`, \`openSandbox({ engine: 'vm' })\` needs no kernel of the machine.

It is Linux, under the licence in \`COPYING\`. Its complete source is that of Debian's package linux ${version}, ${own}, with the
configuration in \`config\`. \`npm run build:kernel\` in ${others} builds it of that source and \`kernel.config\`.
`,
  )
  writeManifest(directory, manifest)
}

/** Packs a directory and returns the tarball with its sizes in bytes. */
export function pack(directory, destination) {
  mkdirSync(destination, { recursive: true })
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', destination]
  const options = { cwd: directory, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }
  const [{ filename, size, unpackedSize }] = JSON.parse(execFileSync('npm', args, options))
  return { file: path.join(destination, filename.replace('@', '').replace('/', '-')), size, unpackedSize }
}

function readManifest(directory) {
  return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'))
}

/** The versions that must be equal. */
function check(root, manifest) {
  const read = (name, pattern) => pattern.exec(readFileSync(path.join(root, name), 'utf8'))?.[1]
  const faults = findManifestFaults(manifest, {
    'Cargo.toml': read('Cargo.toml', /^\[workspace\.package\]\nversion = "(.*)"/m),
    'lib/addon/platforms.ts': read('lib/addon/platforms.ts', /VERSION = '(.*)'/),
    'package-lock.json': JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')).version,
    ...Object.fromEntries(
      companions(root).map((name) => [
        `packages/${name}/package.json`,
        readManifest(path.join(root, 'packages', name)).version,
      ]),
    ),
  })
  if (faults.length > 0) throw new Problem(`${manifest.name} must not be packed: ${faults.join('; ')}.`)
}

function prepare(directory) {
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
}

function writeManifest(directory, manifest) {
  writeFileSync(path.join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}
