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
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { companions } from './packages/companions.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/** Runs a program in the repository and shows its output; rejects if it fails. */
export async function run(program, args, env = {}) {
  const options = { cwd: root, stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, ...env } }
  const [code] = await once(spawn(program, args, options), 'close')
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed; the reason is above.`)
}

/** The target triple of this machine, like x86_64-unknown-linux-gnu. */
function hostTriple() {
  const about = execFileSync('rustc', ['-vV'], { cwd: root, encoding: 'utf8' })
  const triple = /^host: (.+)$/m.exec(about)?.[1]
  if (triple === undefined) throw new Error(`rustc -vV names no host:\n${about}`)
  return triple
}

/** Compiles what has changed of each `lib/` to the `dist/` next to it. */
export async function buildTypeScript() {
  const packages = companions(root).map((name) => path.join(root, 'packages', name))
  for (const directory of [root, ...packages]) removeStale(directory)
  await run(process.execPath, [path.join(root, 'node_modules/typescript/bin/tsc'), '-b', ...packages])
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

/** Compiles the crates and copies the two artifacts. `build` is 'debug' or 'release'. */
export async function buildNative(build) {
  const profile = build === 'release' ? ['--release'] : []
  const triple = hostTriple()
  const flags = `CARGO_TARGET_${triple.toUpperCase().replaceAll('-', '_')}_RUSTFLAGS`
  await run('cargo', ['build', '--locked', '--package', 'nacre', ...profile])
  await run('cargo', ['build', '--locked', '--package', 'nacre-supervisor', '--target', triple, ...profile], {
    [flags]: '-C target-feature=+crt-static',
  })
  const target = path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target')
  put(path.join(target, build, 'libnacre.so'), build, 'nacre.node')
  put(path.join(target, triple, build, 'nacre-supervisor'), build, 'nacre-supervisor')
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
