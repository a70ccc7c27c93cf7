/**
 * Finds and loads the native addon, once per thread, at the first call that needs it.
 *
 * In an executable of `bun build --compile` it is the copy inside (`embedded.ts`). Otherwise, in this order: the build
 * in this package (`native/release`, or `native/debug` with NACRE_NATIVE=debug), then the platform package for glibc,
 * then the one for musl: the wrong libc fails to load, so nothing has to be detected. When nothing loads, one
 * AggregateError holds every reason and names the command that repairs it.
 */
import { createRequire } from 'node:module'
import path from 'node:path'
import type { NativeAddon } from './boundary/index.js'
import { loadEmbedded } from './embedded.js'

export interface LoadedAddon {
  addon: NativeAddon
  /** Absolute path of the supervisor executable, which lies beside the addon. */
  readonly supervisor: string
}

const require = createRequire(import.meta.url)

let loaded: LoadedAddon | undefined

/** The addon and its supervisor. Throws the AggregateError described above. */
export function loadAddon(): LoadedAddon {
  loaded ??= loadEmbedded() ?? loadFile()
  return loaded
}

function loadFile(): LoadedAddon {
  const build = process.env.NACRE_NATIVE === 'debug' ? 'debug' : 'release'
  const platform = `nacre-${process.platform}-${process.arch}`
  const local = path.join(import.meta.dirname, '..', 'native', build, 'nacre.node')
  const errors: unknown[] = []
  for (const candidate of [local, `${platform}-gnu`, `${platform}-musl`]) {
    try {
      const file = require.resolve(candidate)
      const addon: NativeAddon = require(file)
      return { addon, supervisor: path.join(path.dirname(file), 'nacre-supervisor') }
    } catch (error) {
      errors.push(error)
    }
  }
  const repair = build === 'debug' ? 'npm run build -- --debug' : 'npm run build'
  throw new AggregateError(
    errors,
    `nacre's native addon could not be loaded; run \`${repair}\` in its directory`,
  )
}
