/**
 * Why the native addon cannot be used: a code, and one sentence with the cause and the remedy.
 */
import { AddonError } from '../base/errors.js'
import type { Built } from './examine.js'
import type { Machine } from './machine.js'
import { type Platform, VERSION } from './platforms.js'

/** The oldest supported Node.js, as in package.json. */
const LEAST_NODE = [20, 19] as const

/** Why this machine can have no nacre, whatever is installed. */
export function machineFailure({ platform, node }: Machine): AddonError | undefined {
  if (platform !== 'linux') {
    const where =
      platform === 'darwin'
        ? 'use openSandbox of nacre/engine, which runs it in a Linux container'
        : 'run it in WSL 2 or a container'
    return new AddonError(
      'ADDON_UNSUPPORTED_PLATFORM',
      `nacre runs on Linux only, and this is ${platform}: ${where}`,
    )
  }
  if (node !== undefined && isOlder(node)) {
    return new AddonError(
      'ADDON_UNSUPPORTED_NODE',
      `nacre needs Node.js ${LEAST_NODE.join('.')} or newer, and this is ${node}: install a newer one`,
    )
  }
  return undefined
}

/** Where nothing was found. `installed` are the platform packages that are there. */
export interface NothingFound {
  /** The packages that would fit. */
  wanted: Platform[]
  installed: Platform[]
  /** The clone that this is, if it is one. */
  clone: string | undefined
}

/** Why there is no addon to load. */
export function absence({ arch, libc }: Machine, { wanted, installed, clone }: NothingFound): AddonError {
  if (clone !== undefined) {
    return new AddonError('ADDON_MISSING', `nacre is not built: run \`npm run setup\` in ${clone}`)
  }
  const [first] = wanted
  if (first === undefined) {
    return new AddonError(
      'ADDON_UNSUPPORTED_PLATFORM',
      `nacre has no package for Linux on ${arch}: build it from its sources, and set NACRE_NATIVE_PATH`,
    )
  }
  const reinstall = 'remove node_modules and install again on this machine'
  const otherLibc = installed.find((one) => one.arch === arch)
  if (otherLibc !== undefined) {
    return new AddonError(
      'ADDON_WRONG_LIBC',
      `${otherLibc.name} is installed, which is for ${otherLibc.libc}, and this program uses ${libc}: ${reinstall}`,
    )
  }
  const [otherArch] = installed
  if (otherArch !== undefined) {
    return new AddonError(
      'ADDON_WRONG_ARCHITECTURE',
      `${otherArch.name} is installed, which is for ${otherArch.arch}, and this program runs on ${arch}: ${reinstall}`,
    )
  }
  const names = wanted.map(({ name }) => name).join(' or ')
  return new AddonError(
    'ADDON_MISSING',
    `the package ${names} is not installed beside nacre: install with optional dependencies ` +
      `(npm install --include=optional); if a lock file of another platform left it out, ${reinstall}; ` +
      'if this program is a bundle, keep nacre outside of it (external), or set NACRE_NATIVE_PATH',
  )
}

/** A platform package that belongs to another version of nacre. */
export function versionFailure(name: string, version: unknown): AddonError {
  return new AddonError(
    'ADDON_WRONG_VERSION',
    `this is nacre ${VERSION}, and ${name} is ${version}: install both in the same version`,
  )
}

/** Why a file could not be loaded. */
export function loadFailure(machine: Machine, file: string, built: Built, error: unknown): AddonError {
  const addon = `nacre's native addon ${file}`
  const reinstall = 'remove node_modules and install again on this machine'
  if (built.arch !== undefined && built.arch !== machine.arch) {
    const message = `${addon} is built for ${built.arch}, and this program runs on ${machine.arch}: ${reinstall}`
    return new AddonError('ADDON_WRONG_ARCHITECTURE', message, error)
  }
  if (built.libc !== undefined && machine.libc !== undefined && built.libc !== machine.libc) {
    const message = `${addon} is built for ${built.libc}, and this program uses ${machine.libc}: ${reinstall}`
    return new AddonError('ADDON_WRONG_LIBC', message, error)
  }
  const reason = error instanceof Error ? error.message : String(error)
  if ((error as NodeJS.ErrnoException | null)?.code === 'ERR_DLOPEN_DISABLED') {
    const remedy =
      'run it without --no-addons, and with --permission also with --allow-addons and --allow-fs-read=*'
    return new AddonError(
      'ADDON_NOT_LOADABLE',
      `this Node.js loads no addons, which nacre needs: ${remedy}`,
      error,
    )
  }
  if (/failed to map segment|Operation not permitted/.test(reason)) return notExecutable(file, error)
  return new AddonError(
    'ADDON_NOT_LOADABLE',
    `${addon} cannot be loaded (${reason}): install it again`,
    error,
  )
}

/** Why Node.js does not permit what nacre needs; undefined for any other error. */
export function deniedFailure(error: unknown): AddonError | undefined {
  const { code, permission, resource } = error as { code?: unknown; permission?: unknown; resource?: unknown }
  if (code !== 'ERR_ACCESS_DENIED') return undefined
  return new AddonError(
    'ADDON_NOT_LOADABLE',
    `the permissions of this Node.js deny nacre ${permission} of ${resource}: run it with --allow-addons and ` +
      '--allow-fs-read=* beside --permission; they do not restrict what its commands do',
    error,
  )
}

/** A file that is there and must not be run. */
export function notExecutable(file: string, error: unknown, hasMode = true): AddonError {
  const remedy = hasMode
    ? 'its file system is mounted with noexec: install nacre on another one, or set NACRE_NATIVE_PATH to a copy'
    : `make it executable (chmod 755 ${file}), or install again`
  return new AddonError('ADDON_NOT_EXECUTABLE', `${file} cannot be executed: ${remedy}`, error)
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < LEAST_NODE[0] || (major === LEAST_NODE[0] && minor < LEAST_NODE[1])
}
