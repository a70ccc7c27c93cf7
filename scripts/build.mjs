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
} from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { companions } from './packages/companions.mjs'
import { writeRequired } from './packages/require.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** The file in `native/<build>` with what the addon exports, for scripts/boundary.mjs. */
export const BOUNDARY = 'boundary.jsonl'

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

/** Compiles what has changed of each `lib/` to the `dist/` next to it. */
export async function buildTypeScript() {
  const packages = companions(root).map((name) => path.join(root, 'packages', name))
  for (const directory of [root, ...packages]) removeStale(directory)
  await run(process.execPath, [path.join(root, 'node_modules/typescript/bin/tsc'), '-b', ...packages])
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

/**
 * Compiles the crates, and copies the two artifacts and the lines that describe the boundary. `build` is 'debug' or 'release'.
 *
 * The supervisor shares all libraries with the addon and the Rust tests. Only its program is compiled with other flags.
 */
export async function buildNative(build) {
  const profile = build === 'release' ? ['--release'] : []
  // The features are for tests.
  const features = build === 'release' ? ['--no-default-features'] : []
  const supervisor = '--package=nacre-supervisor'
  const libraries = await cargo('build', '--package=nacre', supervisor, '--lib', ...profile, ...features)
  const { filenames, package_id: id } = libraries.find(({ target }) => target?.kind.includes('cdylib'))
  const { out_dir: generated } = libraries.find(
    ({ reason, package_id: owner }) => reason === 'build-script-executed' && owner === id,
  )
  put(filenames[0], build, 'nacre.node')
  put(path.join(generated, 'boundary/nacre'), build, BOUNDARY)
  const program = await cargo('rustc', supervisor, '--bin=nacre-supervisor', ...profile, '--', ...STATIC)
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
  await Promise.all([buildTypeScript(), buildNative(process.argv.includes('--debug') ? 'debug' : 'release')])
}
