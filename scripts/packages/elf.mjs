/**
 * The requirements of an ELF file, read by readelf of GNU binutils or LLVM.
 */
import { execFileSync } from 'node:child_process'
import { Problem } from './problem.mjs'
import { GLIBC_FLOOR } from './targets.mjs'

/** readelf's names of the processors. */
const MACHINES = { x64: /X86-64/, arm64: /AArch64/ }

/** Reads a file. Throws Problem without readelf. */
export function readElf(file) {
  try {
    const args = [
      '--wide',
      '--file-header',
      '--program-headers',
      '--dynamic',
      '--version-info',
      '--section-headers',
    ]
    return parse(
      execFileSync('readelf', [...args, file], {
        encoding: 'utf8',
        maxBuffer: 1e8,
        env: { ...process.env, LC_ALL: 'C' },
      }),
    )
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
    throw new Problem('The packages are checked with readelf, and there is none on PATH: install binutils.')
  }
}

/** Parses the output of readelf. Pure. */
export function parse(text) {
  return {
    machine: /Machine:\s+(.*)/.exec(text)?.[1] ?? '',
    isDynamic: /^There is no dynamic section/m.test(text) ? false : /\(NEEDED\)|\(FLAGS/.test(text),
    interpreter: /\[Requesting program interpreter: (.*)\]/.exec(text)?.[1],
    needed: Array.from(text.matchAll(/\(NEEDED\)\s+Shared library: \[(.*)\]/g), ([, name]) => name),
    glibc: highest(Array.from(text.matchAll(/Name: GLIBC_(\d[\d.]*)/g), ([, version]) => version)),
    isStripped: !/\s\.symtab\s/.test(text),
  }
}

/** The newest of versions like `2.17`; undefined for an empty list. Pure. */
export function highest(versions) {
  return versions.toSorted(compareVersions).at(-1)
}

/** Compares versions: negative if `one` is older. Pure. */
export function compareVersions(one, other) {
  const [left, right] = [one, other].map((version) => version.split('.').map(Number))
  const at = left.findIndex((part, index) => part !== (right[index] ?? 0))
  return at < 0 ? left.length - right.length : left[at] - (right[at] ?? 0)
}

/** Sentences about the faults of a target's file. `kind` is 'addon', 'builtin' or 'supervisor'. Pure. */
export function findFaults(elf, kind, { cpu, libc }) {
  const faults = []
  if (!MACHINES[cpu].test(elf.machine)) faults.push(`is built for ${elf.machine}, not for ${cpu}`)
  if (!elf.isStripped) faults.push('is not stripped')
  if (kind === 'supervisor') {
    if (elf.interpreter !== undefined || elf.needed.length > 0) faults.push('is not linked statically')
    return faults
  }
  if (libc === 'glibc') {
    if (elf.glibc !== undefined && compareVersions(elf.glibc, GLIBC_FLOOR) > 0) {
      faults.push(`needs glibc ${elf.glibc}; the oldest supported version is ${GLIBC_FLOOR}`)
    }
    if (elf.needed.some((name) => name.includes('musl'))) faults.push('is built for musl')
  } else if (elf.glibc !== undefined || elf.needed.includes('libc.so.6')) {
    faults.push('is built for glibc')
  }
  const foreign = elf.needed.filter(
    (name) => !/^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so|^libc\.musl-/.test(name),
  )
  if (foreign.length > 0) faults.push(`needs ${foreign.join(', ')}`)
  return faults
}
