/**
 * The addon and its supervisor as assets of an executable that Node.js has made (`node --experimental-sea-config`).
 *
 * Its configuration has to name both files: `"assets": { "nacre.node": "...", "nacre-supervisor": "..." }`.
 */
import { ADDON, type LoadedAddon, openAddon, SUPERVISOR } from './directory.js'
import type { Machine } from './machine.js'
import { unpackExecutable } from './unpack.js'

/** `node:sea`, as far as it is used here. */
interface SingleExecutable {
  isSea(): boolean
  getRawAsset(key: string): ArrayBuffer
}

/** Undefined where this is no such executable, or nacre is not in it. */
export function loadAssets(machine: Machine): LoadedAddon | undefined {
  // Bun has executables of its own.
  if (process.versions.bun !== undefined) return undefined
  const sea = process.getBuiltinModule('node:sea') as SingleExecutable | undefined
  if (!sea?.isSea()) return undefined
  const [addon, supervisor] = [asset(sea, ADDON), asset(sea, SUPERVISOR)]
  if (addon === undefined || supervisor === undefined) return undefined
  return {
    addon: openAddon(unpackExecutable(addon, ADDON), machine),
    // Looked at anew for each sandbox: temporary directories are swept now and then.
    get supervisor() {
      return unpackExecutable(supervisor, SUPERVISOR)
    },
  }
}

function asset(sea: SingleExecutable, key: string): Uint8Array | undefined {
  try {
    return new Uint8Array(sea.getRawAsset(key))
  } catch {
    return undefined
  }
}
