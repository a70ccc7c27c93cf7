/**
 * What a file is built for, read from the file itself.
 *
 * The message of the dynamic loader often names no cause. For a file of another architecture glibc reports that the
 * file does not exist. For another C library it names that library.
 */
import { fs } from '../base/builtin.js'
import { libcNamedIn } from './machine.js'
import type { Libc } from './platforms.js'

const { readFileSync } = fs

/** e_machine of an ELF header, as names of `process.arch`. */
const ELF_MACHINES: Record<number, string> = { 3: 'ia32', 40: 'arm', 62: 'x64', 183: 'arm64', 243: 'riscv64' }

export interface Built {
  /** Undefined for a file that is no ELF object. */
  arch: string | undefined
  libc: Libc | undefined
}

export function examine(file: string): Built {
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
