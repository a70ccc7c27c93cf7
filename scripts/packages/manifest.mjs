/**
 * The package.json of each published package. Pure.
 *
 * The repository's own package.json describes the workspace: its development dependencies are the tools, and its dependencies
 * are bundled. The published one has neither. Only the published one names the platform packages, so `npm ci` in a clone does
 * not request them from the registry.
 */
import { CONTAINERS, containerName, KERNEL, packageName, TARGETS } from './targets.mjs'

const SHARED = ['version', 'license', 'author', 'homepage', 'repository', 'bugs', 'funding', 'engines']

/** The manifest of `nacre`. */
export function mainManifest(root) {
  const { private: _private, scripts, dependencies, devDependencies, workspaces, ...kept } = root
  const { types, ...client } = root.exports['./client']
  // Bundled.
  const { '#host-copy': _hostCopy, ...imports } = root.imports
  return {
    ...kept,
    imports,
    // Bun has the condition `node` too.
    exports: { ...root.exports, './client': { types, node: client, default: './dist/client.browser.js' } },
    optionalDependencies: Object.fromEntries(
      [...Object.keys(TARGETS).map(packageName), ...CONTAINERS.map(containerName)].map((name) => [
        name,
        root.version,
      ]),
    ),
  }
}

/** The manifest of a companion package. `source` is the one in its directory. */
export function companionManifest(root, { devDependencies, ...source }) {
  return { ...source, ...shared(root), publishConfig: root.publishConfig }
}

/** The manifest of a platform package. */
export function platformManifest(root, name) {
  const { cpu, libc } = TARGETS[name]
  return {
    name: packageName(name),
    description: `The native part of nacre for Linux with ${libc} on ${cpu}`,
    ...shared(root),
    os: ['linux'],
    cpu: [cpu],
    libc: [libc],
    main: './nacre.node',
    files: ['nacre.node', 'nacre-supervisor', 'NOTICE'],
    publishConfig: { access: 'public', provenance: true },
  }
}

/** The manifest of the package with Linux' files for a Mac. Containers mount a copy of them. */
export function containerManifest(root, cpu) {
  return {
    name: containerName(cpu),
    description: `The native part of nacre for Linux on ${cpu}, for containers on a Mac`,
    ...shared(root),
    os: ['darwin'],
    cpu: [cpu],
    files: ['gnu', 'musl', 'nacre-supervisor', 'NOTICE'],
    // Yarn would keep it in an archive.
    preferUnplugged: true,
    publishConfig: { access: 'public', provenance: true },
  }
}

/** The manifest of the package with the kernel of virtual machines. */
export function kernelManifest(root) {
  return {
    name: KERNEL,
    description: 'The kernel of virtual machines that nacre starts on x64',
    ...shared(root),
    license: 'GPL-2.0-only WITH Linux-syscall-note',
    os: ['linux'],
    cpu: ['x64'],
    files: ['vmlinux', 'config', 'kernel.config', 'COPYING', 'LICENSES'],
    // QEMU reads it by its path, and Yarn would keep it in an archive.
    preferUnplugged: true,
    publishConfig: { access: 'public', provenance: true },
  }
}

function shared(root) {
  return Object.fromEntries(SHARED.filter((key) => key in root).map((key) => [key, root[key]]))
}

/** Reasons against publishing, as sentences. `versions` are the versions that other files claim, by file name. */
export function findFaults(manifest, versions) {
  const faults = []
  const { name, version } = manifest
  for (const [file, claimed] of Object.entries(versions)) {
    if (claimed !== version) faults.push(`${file} has version ${claimed}, and ${name} has ${version}`)
  }
  if (Object.keys(manifest.scripts ?? {}).length > 0) faults.push(`${name} has scripts`)
  if (name === 'nacre' && Object.keys(manifest.dependencies ?? {}).length > 0)
    faults.push(`${name} has dependencies`)
  if (manifest.private) faults.push(`${name} is private`)
  for (const key of ['license', 'repository', 'homepage', 'bugs', 'funding']) {
    if (manifest[key] === undefined) faults.push(`${name} has no field '${key}'`)
  }
  const { optionalDependencies, peerDependencies } = manifest
  for (const [own, wanted] of Object.entries({ ...optionalDependencies, ...peerDependencies })) {
    if (/^(@nacre\/|nacre$)/.test(own) && wanted !== version)
      faults.push(`${name} wants ${own} ${wanted}, not ${version}`)
  }
  return faults
}
