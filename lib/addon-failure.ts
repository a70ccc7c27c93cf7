/**
 * Why the native addon could not be loaded: one sentence with the cause and the repair, and a code.
 *
 * The message of the loader often names neither. For a file of another architecture glibc reports that the file does not
 * exist. For another C library it names that library, not the cause. So the file itself is examined.
 */
import { readFileSync } from 'node:fs'
import type { AddonErrorCode, AddonError as PublicAddonError } from './public/index.js'

type Libc = 'glibc' | 'musl'

/** What this process runs on. */
export interface Machine {
  platform: string
  /** As in `process.arch`. */
  arch: string
  /** Undefined where it cannot be determined. */
  libc: Libc | undefined
  /** The version of Node.js; undefined in Bun. */
  node: string | undefined
}

/** A place where the addon may be. */
export interface Attempt {
  /** An absolute path or the name of a package. */
  candidate: string
  error: unknown
  /** Of a file that exists but could not be loaded. */
  found?: { file: string; arch: string | undefined; libc: Libc | undefined }
}

/** The oldest supported Node.js, as in package.json. */
const LEAST_NODE = [20, 19] as const

/** e_machine of an ELF header, as names of `process.arch`. */
const ELF_MACHINES: Record<number, string> = { 3: 'ia32', 40: 'arm', 62: 'x64', 183: 'arm64', 243: 'riscv64' }

export class AddonError extends Error implements PublicAddonError {
  static {
    Object.defineProperty(AddonError.prototype, 'name', { value: 'AddonError' })
  }

  declare readonly name: 'AddonError'
  readonly code: AddonErrorCode

  constructor(code: AddonErrorCode, message: string, cause: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/**
 * The error for attempts that all failed. `repair` is what builds or installs the addon.
 *
 * Of several files the one that fits best is reported: a file for this machine before one for another C library, and
 * that before one for another processor.
 */
export function explain(machine: Machine, attempts: Attempt[], repair: string): AddonError {
  const { platform, arch, libc, node } = machine
  const fail = (code: AddonErrorCode, message: string, cause: unknown = attempts[0]?.error) =>
    new AddonError(code, message, cause)
  if (platform !== 'linux') {
    const message = `nacre runs on Linux only, and this is ${platform}: use a container or a virtual machine`
    return fail('ADDON_UNSUPPORTED_PLATFORM', message)
  }
  if (node !== undefined && isOlder(node)) {
    const message = `nacre needs Node.js ${LEAST_NODE.join('.')} or newer, and this is ${node}: install a newer one`
    return fail('ADDON_UNSUPPORTED_NODE', message)
  }
  const files = attempts.flatMap(({ found, error }) => (found === undefined ? [] : [{ ...found, error }]))
  const ofOtherArch = files.filter((file) => file.arch !== undefined && file.arch !== arch)
  const ofThisArch = files.filter((file) => !ofOtherArch.includes(file))
  const isOtherLibc = (file: { libc?: Libc }) =>
    file.libc !== undefined && libc !== undefined && file.libc !== libc
  const fitting = ofThisArch.find((file) => !isOtherLibc(file))
  if (fitting !== undefined) {
    const reason = fitting.error instanceof Error ? fitting.error.message : String(fitting.error)
    const message = `nacre's native addon ${fitting.file} cannot be loaded (${reason}); ${repair}`
    return fail('ADDON_NOT_LOADABLE', message, fitting.error)
  }
  const [wrongLibc] = ofThisArch
  if (wrongLibc !== undefined) {
    const message = `nacre's native addon ${wrongLibc.file} is built for ${wrongLibc.libc}, and this program uses ${libc}; ${repair}`
    return fail('ADDON_WRONG_LIBC', message, wrongLibc.error)
  }
  const [wrongArch] = ofOtherArch
  if (wrongArch !== undefined) {
    const message = `nacre's native addon ${wrongArch.file} is built for ${wrongArch.arch}, and this program runs on ${arch}; ${repair}`
    return fail('ADDON_WRONG_ARCHITECTURE', message, wrongArch.error)
  }
  const places = attempts.map(({ candidate }) => candidate).join(', ')
  return fail('ADDON_MISSING', `nacre's native addon is not installed (looked for ${places}); ${repair}`)
}

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major < LEAST_NODE[0] || (major === LEAST_NODE[0] && minor < LEAST_NODE[1])
}

export function thisMachine(): Machine {
  const { platform, arch, versions } = process
  return { platform, arch, libc: loadedLibc(), node: versions.bun === undefined ? versions.node : undefined }
}

/** The C library that this process has loaded; undefined for a static one and without /proc. */
function loadedLibc(): Libc | undefined {
  try {
    return libcNamedIn(readFileSync('/proc/self/maps'))
  } catch {
    return undefined
  }
}

/** What an addon is built for; undefined for a file that is no ELF object. */
export function examine(file: string): { arch: string | undefined; libc: Libc | undefined } {
  try {
    const bytes = readFileSync(file)
    if (bytes.length < 20 || bytes.toString('latin1', 0, 4) !== '\x7fELF')
      return { arch: undefined, libc: undefined }
    const isLittleEndian = bytes[5] === 1
    const machine = isLittleEndian ? bytes.readUInt16LE(18) : bytes.readUInt16BE(18)
    return { arch: ELF_MACHINES[machine] ?? `ELF machine ${machine}`, libc: libcNamedIn(bytes) }
  } catch {
    return { arch: undefined, libc: undefined }
  }
}

/** By the names of the dynamic loaders and of the libraries themselves. */
function libcNamedIn(bytes: Buffer): Libc | undefined {
  if (bytes.includes('ld-musl-') || bytes.includes('libc.musl-')) return 'musl'
  if (bytes.includes('libc.so.6')) return 'glibc'
  return undefined
}
