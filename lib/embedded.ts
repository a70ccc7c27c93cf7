/**
 * The addon and its supervisor inside an executable that `bun build --compile` has made.
 *
 * A bundler takes along what it can see: so both paths are written out here, each in a `try`, which lets a bundler pass
 * over a file that is not there. What the second `require` gives is then no module but the path of the embedded file.
 * Bun loads the addon from within the executable by itself; the supervisor has to be a file of its own to be started.
 */
import { readFileSync } from 'node:fs'
import type { NativeAddon } from './backends/native/boundary/index.js'
import { unpackExecutable } from './unpack.js'

const SUPERVISOR = 'nacre-supervisor'

/** What Bun has beyond Node, as far as it is used here. */
interface BunRuntime {
  /** Of an executable: the files in it. */
  embeddedFiles?: ReadonlyArray<{ name?: string }>
}

export interface EmbeddedAddon {
  addon: NativeAddon
  /** Absolute path. Looked at anew for each sandbox: temporary directories are swept now and then. */
  readonly supervisor: string
}

/** Undefined where there is no executable around this program, or nacre is not in it. */
export function loadEmbedded(): EmbeddedAddon | undefined {
  const { Bun } = globalThis as { Bun?: BunRuntime }
  const isInside = Bun?.embeddedFiles?.some(({ name }) => name?.includes(SUPERVISOR))
  if (!isInside) return undefined
  const addon = embeddedAddon()
  const bytes = readFileSync(embeddedSupervisor())
  return {
    addon,
    get supervisor() {
      return unpackExecutable(bytes, SUPERVISOR)
    },
  }
}

function embeddedAddon(): NativeAddon {
  try {
    return require('../native/release/nacre.node')
  } catch (cause) {
    throw new Error("the executable's own copy of nacre's native addon could not be loaded", { cause })
  }
}

function embeddedSupervisor(): string {
  try {
    const file = require('../native/release/nacre-supervisor')
    return typeof file === 'string' ? file : file.default
  } catch (cause) {
    throw new Error("the executable's own copy of nacre's supervisor could not be found", { cause })
  }
}
