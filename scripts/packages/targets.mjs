/**
 * The platforms that have a package.
 *
 * `zig` is the target for `zig cc`; for glibc, with the oldest version that the addon may need. CentOS 7 has 2.17; every
 * distribution that Node.js 20 supports has a newer version.
 */
export const GLIBC_FLOOR = '2.17'

export const TARGETS = {
  'linux-x64-gnu': target('x64', 'x86_64', 'gnu'),
  'linux-x64-musl': target('x64', 'x86_64', 'musl'),
  'linux-arm64-gnu': target('arm64', 'aarch64', 'gnu'),
  'linux-arm64-musl': target('arm64', 'aarch64', 'musl'),
}

function target(cpu, arch, abi) {
  const isGnu = abi === 'gnu'
  return {
    cpu,
    libc: isGnu ? 'glibc' : 'musl',
    triple: `${arch}-unknown-linux-${abi}`,
    zig: `${arch}-linux-${abi}${isGnu ? `.${GLIBC_FLOOR}` : ''}`,
    /** The target of the supervisor, which is static: with musl it is a third of its size with glibc. */
    supervisor: { triple: `${arch}-unknown-linux-musl`, zig: `${arch}-linux-musl` },
  }
}

/** The name of the package for a target. */
export function packageName(target) {
  return `@nacre/${target}`
}

/** This machine's target. */
export function hostTarget() {
  const isGlibc = process.report.getReport().header.glibcVersionRuntime !== undefined
  return `linux-${process.arch}-${isGlibc ? 'gnu' : 'musl'}`
}

/** The targets that the words of a command line name: this machine's, if there is none, or all. */
export function chosenTargets(words) {
  if (words.length === 0) return [hostTarget()]
  return words.includes('all') ? Object.keys(TARGETS) : words
}

/** The package with the kernel of virtual machines. */
export const KERNEL = '@nacre/kernel-x64'

/** The processors that have a package with Linux' files for a Mac, for containers. */
export const CONTAINERS = [...new Set(Object.values(TARGETS).map(({ cpu }) => cpu))]

/** The name of that package. */
export function containerName(cpu) {
  return `@nacre/container-${cpu}`
}
