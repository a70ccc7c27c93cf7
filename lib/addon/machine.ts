/**
 * What this process runs on.
 */
import { fs } from '../base/builtin.js'
import type { Libc } from './platforms.js'

const { readFileSync } = fs

export interface Machine {
  platform: string
  /** As in `process.arch`. */
  arch: string
  /** Undefined where it cannot be determined. */
  libc: Libc | undefined
  /** The version of Node.js; undefined in Bun. */
  node: string | undefined
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

/** By the names of the dynamic loaders and of the libraries themselves. */
export function libcNamedIn(bytes: Buffer): Libc | undefined {
  if (bytes.includes('ld-musl-') || bytes.includes('libc.musl-')) return 'musl'
  if (bytes.includes('libc.so.6')) return 'glibc'
  return undefined
}
