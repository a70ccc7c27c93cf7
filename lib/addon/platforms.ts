/**
 * The packages that hold the native part, one for each platform.
 *
 * Their names and their version are part of the program, since a bundle has no package.json at hand. Packing checks that
 * the published package.json declares exactly these.
 */

/** The version of this package and of every platform package. */
export const VERSION = '0.1.0'

export type Libc = 'glibc' | 'musl'

export interface Platform {
  /** As in `process.arch`. */
  arch: string
  libc: Libc
  name: string
}

export const PLATFORMS: Platform[] = [
  { arch: 'x64', libc: 'glibc', name: '@nacre/linux-x64-gnu' },
  { arch: 'x64', libc: 'musl', name: '@nacre/linux-x64-musl' },
  { arch: 'arm64', libc: 'glibc', name: '@nacre/linux-arm64-gnu' },
  { arch: 'arm64', libc: 'musl', name: '@nacre/linux-arm64-musl' },
]

/** The packages for a machine: one, or none. Where the C library is unknown, those for each. */
export function platformsFor(arch: string, libc: Libc | undefined): Platform[] {
  return PLATFORMS.filter((one) => one.arch === arch && (libc === undefined || one.libc === libc))
}
