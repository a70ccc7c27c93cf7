/**
 * Finds and loads the native addon, once per thread, at the first call that needs it.
 *
 * In this order: the directory that NACRE_NATIVE_PATH names; the copy inside an executable of Bun or of Node.js; the build
 * in a clone (`native/release`, or `native/debug` with NACRE_NATIVE=debug); the platform package for this process's
 * processor and C library. Every failure is an AddonError with the cause and the remedy.
 */

import { loadEmbedded } from '#embedded'
import { fs, path } from '../base/builtin.js'
import { type LoadedAddon, loadDirectory } from './directory.js'
import { absence, deniedFailure, machineFailure, versionFailure } from './failure.js'
import { type Machine, thisMachine } from './machine.js'
import { manifestOf, packageRoot } from './package-root.js'
import { PLATFORMS, platformsFor, VERSION } from './platforms.js'
import { findBuild, findPackage, programDirectories } from './search.js'
import { loadAssets } from './single-executable.js'
import { unpackExecutable } from './unpack.js'

const { existsSync } = fs

let loaded: LoadedAddon | undefined

/** The addon and its supervisor. Throws AddonError. */
export function loadAddon(): LoadedAddon {
  try {
    loaded ??= load(thisMachine())
  } catch (error) {
    throw deniedFailure(error) ?? error
  }
  return loaded
}

function load(machine: Machine): LoadedAddon {
  const failure = machineFailure(machine)
  if (failure !== undefined) throw failure
  const chosen = process.env.NACRE_NATIVE_PATH
  if (chosen) return loadDirectory(path.resolve(chosen), machine)
  const names = platformsFor(machine.arch, machine.libc).map(({ name }) => name)
  return loadEmbedded(names, unpackExecutable) ?? loadAssets(machine) ?? loadInstalled(machine)
}

function loadInstalled(machine: Machine): LoadedAddon {
  const directories = programDirectories()
  const own = findBuild(directories)
  if (own !== undefined) return loadDirectory(own, machine)
  const wanted = platformsFor(machine.arch, machine.libc)
  for (const { name } of wanted) {
    const found = findPackage(name, directories)
    if (found !== undefined) return loadPackage(name, found, machine)
  }
  const installed = PLATFORMS.filter(({ name }) => findPackage(name, directories) !== undefined)
  throw absence(machine, { wanted, installed, clone: cloneOf(directories) })
}

function loadPackage(name: string, directory: string, machine: Machine): LoadedAddon {
  const version = manifestOf(directory)?.version
  if (version !== VERSION) throw versionFailure(name, version)
  return loadDirectory(directory, machine)
}

/** A clone of the repository, which has sources and no declared platform package. */
function cloneOf(directories: string[]): string | undefined {
  const roots = directories.map((directory) => packageRoot(directory))
  return roots.find((root) => root !== undefined && existsSync(path.join(root, 'Cargo.toml')))
}
