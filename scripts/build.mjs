/**
 * Builds everything that nacre needs to run: `dist/` from TypeScript, also in each companion package, and the addon with its
 * supervisor into `native/<build>/`.
 *
 *   node scripts/build.mjs [--debug]      default: release
 *
 * The supervisor is linked statically, so that it starts fast and runs in any root directory. Files are renamed into place,
 * so a program that has loaded the old addon keeps it.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { boundary } from './packages/boundary.mjs'
import { companions } from './packages/companions.mjs'
import { writeRequired } from './packages/require.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** The types of what the addon exports. */
const BOUNDARY = 'lib/boundary/index.ts'

const STATIC = ['-C', 'target-feature=+crt-static']

/** Runs a program in the repository and shows its output; rejects if it fails. */
export async function run(program, args, env = {}) {
  const options = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } }
  const [code] = await once(spawn(program, args, options), 'close')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed; the reason is above.`)
}

/** Runs cargo. Returns what cargo reports: the artifacts, and the results of build scripts. */
async function cargo(command, ...args) {
  const words = [command, '--locked', '--message-format=json-render-diagnostics', ...args]
  const child = spawn('cargo', words, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = once(child, 'close')
  const messages = []
  for await (const line of createInterface({ input: child.stdout })) messages.push(JSON.parse(line))
  const [code] = await closed
  if (code !== 0) throw new Error(`cargo ${words.join(' ')} failed; the reason is above.`)
  return messages
}

/** Compiles what has changed of each `lib/` to the `dist/` next to it. The addon must have been built before. */
export async function buildTypeScript() {
  const packages = companions(root).map((name) => path.join(root, 'packages', name))
  for (const directory of [root, ...packages]) removeStale(directory)
  const compile = (...projects) =>
    run(process.execPath, [path.join(root, 'node_modules/typescript/bin/tsc'), '-b', ...projects])
  await compile(root)
  // It needs what was compiled, and typescript, which setup.mjs installs first.
  const { serverTexts } = await import('./packages/server-texts.mjs')
  await serverTexts(root)
  await compile(...packages)
  for (const directory of [root, ...packages]) {
    const { exports } = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'))
    writeRequired(exports, directory)
  }
  // Not at the top: setup.mjs installs rolldown first.
  const { bundleInside } = await import('./packages/inside.mjs')
  await bundleInside(root, path.join(root, 'dist/engine/inside.js'))
  const { bundlePage } = await import('./packages/page.mjs')
  await bundlePage(root)
  completeBun()
  // npm does this for packages that it installs, but not for a clone.
  chmodSync(path.join(root, 'dist', 'cli', 'main.js'), 0o755)
}

/** Removes what tsc has made of modules that are no longer in `lib/`. */
function removeStale(directory) {
  const dist = path.join(directory, 'dist')
  const made = existsSync(dist) ? readdirSync(dist, { recursive: true }) : []
  for (const file of made) {
    const [, module] = /^(.*)\.(?:js|d\.ts)$/.exec(file) ?? []
    if (module !== undefined && !existsSync(path.join(directory, 'lib', `${module}.ts`)))
      rmSync(path.join(dist, file))
  }
}

/** Installs Bun's executable. Its package does so in a postinstall script, which npm may not have run. */
function completeBun() {
  try {
    execFileSync(path.join(root, 'node_modules/.bin/bun'), ['--version'], { stdio: 'ignore' })
  } catch {
    const options = { cwd: path.join(root, 'node_modules/bun'), stdio: 'inherit' }
    execFileSync(process.execPath, ['install.js'], options)
  }
}

const SUPERVISOR = '--package=nacre-supervisor'

/**
 * Compiles the crates, and copies the addon. Writes the types of what it exports, which TypeScript needs. `build` is 'debug'
 * or 'release'.
 */
export async function buildAddon(build) {
  // The features are for tests.
  const features = build === 'release' ? ['--release', '--no-default-features'] : []
  const libraries = await cargo('build', '--package=nacre', SUPERVISOR, '--lib', ...features)
  const { filenames, package_id: id } = libraries.find(({ target }) => target?.kind.includes('cdylib'))
  const { out_dir: generated } = libraries.find(
    ({ reason, package_id: owner }) => reason === 'build-script-executed' && owner === id,
  )
  put(filenames[0], build, 'nacre.node')
  const types = boundary(readFileSync(path.join(generated, 'boundary/nacre'), 'utf8'))
  const file = path.join(root, BOUNDARY)
  mkdirSync(path.dirname(file), { recursive: true })
  if (!existsSync(file) || readFileSync(file, 'utf8') !== types) writeFileSync(file, types)
}

/** Compiles the supervisor. It shares all libraries with the addon and the Rust tests; only its program has other flags. */
export async function buildSupervisor(build) {
  const profile = build === 'release' ? ['--release'] : []
  const program = await cargo('rustc', SUPERVISOR, '--bin=nacre-supervisor', ...profile, '--', ...STATIC)
  // At once: the tests of the supervisor put theirs in the same place.
  put(program.find(({ executable }) => executable).executable, build, 'nacre-supervisor')
}

function put(artifact, build, name) {
  const directory = path.join(root, 'native', build)
  const temporary = path.join(directory, `${name}.${process.pid}.tmp`)
  mkdirSync(directory, { recursive: true })
  copyFileSync(artifact, temporary)
  renameSync(temporary, path.join(directory, name))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const build = process.argv.includes('--debug') ? 'debug' : 'release'
  await buildAddon(build)
  await Promise.all([buildTypeScript(), buildSupervisor(build)])
}
