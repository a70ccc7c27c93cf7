/**
 * Finds and loads the native addon, once per thread, at the first call that needs it.
 *
 * In an executable of `bun build --compile` it is the copy inside (`#embedded`, which is `embedded.ts` in Bun alone).
 * Otherwise, in this order: the build in this package (`native/release`, or `native/debug` with NACRE_NATIVE=debug), then
 * the platform package for glibc, then the one for musl: the wrong libc fails to load, so nothing has to be detected. When
 * nothing loads, an AddonError names the cause and the repair (`addon-failure.ts`).
 */
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadEmbedded } from '#embedded'
import { type Attempt, examine, explain, thisMachine } from './addon-failure.js'
import type { NativeAddon } from './backends/native/boundary/index.js'
import { packageRoot } from './package-root.js'

export interface LoadedAddon {
  addon: NativeAddon
  /** Absolute path of the supervisor executable, which lies beside the addon. */
  readonly supervisor: string
}

const require = createRequire(import.meta.url)

let loaded: LoadedAddon | undefined

/** The addon and its supervisor. Throws AddonError. */
export function loadAddon(): LoadedAddon {
  loaded ??= loadEmbedded() ?? loadFile()
  return loaded
}

function loadFile(): LoadedAddon {
  const build = process.env.NACRE_NATIVE === 'debug' ? 'debug' : 'release'
  const platform = `nacre-${process.platform}-${process.arch}`
  const root = installedIn()
  const local = path.join(root, 'native', build, 'nacre.node')
  const attempts: Attempt[] = []
  for (const candidate of [local, `${platform}-gnu`, `${platform}-musl`]) {
    let file: string | undefined
    try {
      file = require.resolve(candidate)
      const addon: NativeAddon = require(file)
      return { addon, supervisor: path.join(path.dirname(file), 'nacre-supervisor') }
    } catch (error) {
      attempts.push({ candidate, error, found: file === undefined ? undefined : { file, ...examine(file) } })
    }
  }
  const command = build === 'debug' ? 'npm run build -- --debug' : 'npm run build'
  throw explain(thisMachine(), attempts, `run \`${command}\` in ${root}`)
}

/** The directory of the package. Within a bundle it is looked up from the bundle's place, as an import would be. */
function installedIn(): string {
  const here = path.dirname(fileURLToPath(import.meta.url))
  const found = packageRoot(here)
  if (found !== undefined) return found
  const manifest = 'nacre/package.json'
  try {
    return path.dirname(require.resolve(manifest))
  } catch {
    return path.dirname(here)
  }
}
