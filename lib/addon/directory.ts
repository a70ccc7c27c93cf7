/**
 * A directory with the two files of the native part: the addon, and the supervisor beside it.
 */
import { fs, path } from '../base/builtin.js'
import { AddonError } from '../base/errors.js'
import type { NativeAddon } from '../boundary/index.js'
import { examine } from './examine.js'
import { loadFailure, notExecutable } from './failure.js'
import type { Machine } from './machine.js'

const { accessSync, constants, existsSync, statSync } = fs

export const ADDON = 'nacre.node'
export const SUPERVISOR = 'nacre-supervisor'

export interface LoadedAddon {
  addon: NativeAddon
  /** Absolute path of the supervisor executable. */
  readonly supervisor: string
}

/** Loads what is in a directory. Throws AddonError. */
export function loadDirectory(directory: string, machine: Machine): LoadedAddon {
  const addon = path.join(directory, ADDON)
  if (!existsSync(addon)) {
    throw new AddonError('ADDON_MISSING', `${directory} has no ${ADDON}: install nacre again`)
  }
  const supervisor = path.join(directory, SUPERVISOR)
  checkExecutable(supervisor)
  return { addon: openAddon(addon, machine), supervisor }
}

/** `process.dlopen` and not `require`, which no bundler has to understand, and which an executable of Node may lack. */
export function openAddon(file: string, machine: Machine): NativeAddon {
  const module: { exports: unknown } = { exports: {} }
  try {
    process.dlopen(module, file)
  } catch (error) {
    throw loadFailure(machine, file, examine(file), error)
  }
  return module.exports as NativeAddon
}

/** access(2) also reports a file system that is mounted with noexec. */
function checkExecutable(file: string): void {
  try {
    accessSync(file, constants.X_OK)
  } catch (error) {
    const entry = statSync(file, { throwIfNoEntry: false })
    if (entry === undefined) {
      throw new AddonError('ADDON_MISSING', `${file} does not exist: install nacre again`, error)
    }
    throw notExecutable(file, error, (entry.mode & 0o111) !== 0)
  }
}
