/**
 * The addon and its supervisor inside an executable that `bun build --compile` has made.
 *
 * A bundler takes along what it can see: so all paths are written out here, each in a `try`, which lets a bundler pass
 * over a file that is not there. What the `require` of a supervisor gives is no module but the path of the embedded file.
 * Bun loads the addon from within the executable by itself; the supervisor has to be a file of its own to be started.
 *
 * This file is published as it is, outside the bundle: it imports nothing of nacre but types.
 */
import type { NativeAddon } from '../boundary/index.js'
import type { LoadedAddon } from './directory.js'

const { readFileSync } = process.getBuiltinModule('node:fs')

const SUPERVISOR = 'nacre-supervisor'

/** What Bun has beyond Node, as far as it is used here. */
interface BunRuntime {
  /** Of an executable: the files in it. */
  embeddedFiles?: ReadonlyArray<{ name?: string }>
}

/** Undefined where there is no executable around this program, or nacre is not in it. `names` are packages that fit. */
export function loadEmbedded(
  names: string[],
  unpack: (bytes: Uint8Array, name: string) => string,
): LoadedAddon | undefined {
  const { Bun } = globalThis as { Bun?: BunRuntime }
  const isInside = Bun?.embeddedFiles?.some(({ name }) => name?.includes(SUPERVISOR))
  if (!isInside) return undefined
  for (const place of ['clone', ...names]) {
    const found = PLACES[place]?.()
    if (found === undefined) continue
    const bytes = readFileSync(found.supervisor)
    return {
      addon: found.addon,
      // Looked at anew for each sandbox: temporary directories are swept now and then.
      get supervisor() {
        return unpack(bytes, SUPERVISOR)
      },
    }
  }
  return undefined
}

type EmbeddedFile = string | { default: string }

/** Only the packages of the running machine are asked for: each other `require` here fails in an executable. */
const PLACES: Record<string, () => { addon: NativeAddon; supervisor: string } | undefined> = {
  clone() {
    try {
      const supervisor = require('../../native/release/nacre-supervisor')
      return both(require('../../native/release/nacre.node'), supervisor)
    } catch {
      return undefined
    }
  },
  '@nacre/linux-x64-gnu'() {
    try {
      const supervisor = require('@nacre/linux-x64-gnu/nacre-supervisor')
      return both(require('@nacre/linux-x64-gnu/nacre.node'), supervisor)
    } catch {
      return undefined
    }
  },
  '@nacre/linux-x64-musl'() {
    try {
      const supervisor = require('@nacre/linux-x64-musl/nacre-supervisor')
      return both(require('@nacre/linux-x64-musl/nacre.node'), supervisor)
    } catch {
      return undefined
    }
  },
  '@nacre/linux-arm64-gnu'() {
    try {
      const supervisor = require('@nacre/linux-arm64-gnu/nacre-supervisor')
      return both(require('@nacre/linux-arm64-gnu/nacre.node'), supervisor)
    } catch {
      return undefined
    }
  },
  '@nacre/linux-arm64-musl'() {
    try {
      const supervisor = require('@nacre/linux-arm64-musl/nacre-supervisor')
      return both(require('@nacre/linux-arm64-musl/nacre.node'), supervisor)
    } catch {
      return undefined
    }
  },
}

function both(addon: NativeAddon, supervisor: EmbeddedFile): { addon: NativeAddon; supervisor: string } {
  return { addon, supervisor: typeof supervisor === 'string' ? supervisor : supervisor.default }
}
