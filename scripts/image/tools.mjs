/**
 * The tools that build and run an image: buildah and podman with gVisor, from Debian's packages, unpacked into a cache. They
 * share one image store, so each can use the other's images.
 */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { createApt, sources } from '../apt.mjs'
import { CACHE } from '../packages/cache.mjs'
import { Problem } from '../packages/problem.mjs'

const DIRECTORY = path.join(CACHE, 'image-tools')
/** The type of file systems that lay directories over others, for statfs(2). */
const OVERLAYFS = 0x794c7630

const LIBRARIES = `usr/lib/${{ x64: 'x86_64', arm64: 'aarch64' }[process.arch]}-linux-gnu`

const PACKAGES = [
  ...[
    'buildah',
    'podman',
    'crun',
    'runsc',
    'conmon',
    'mmdebstrap',
    'busybox-static',
    'libgpgme11',
    'libassuan0',
    'libsubid4',
    'libyajl2',
  ],
  ...[
    'patchelf',
    'golang-github-containers-common',
    'golang-github-containers-image',
    'libseccomp2',
    'libdevmapper1.02.1',
  ],
]

/** Fetches the tools, and returns functions to run them with images in `storage`. */
export function openTools(storage) {
  if (process.getuid() !== 0) throw new Problem('Building an image needs root.')
  const root = path.join(DIRECTORY, 'root')
  if (!existsSync(path.join(root, 'usr/bin/runsc'))) {
    const unpacked = path.join(DIRECTORY, 'unpacked')
    rmSync(unpacked, { recursive: true, force: true })
    createApt(DIRECTORY, sources('bookworm'), [process.arch === 'x64' ? 'amd64' : process.arch]).unpack(
      PACKAGES,
      unpacked,
    )
    useOwnLibraries(unpacked, root)
    rmSync(root, { recursive: true, force: true })
    renameSync(unpacked, root)
  }
  mkdirSync(storage, { recursive: true })
  const policy = path.join(storage, 'policy.json')
  writeFileSync(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
  const home = path.join(storage, 'home')
  mkdirSync(path.join(home, '.config/containers'), { recursive: true })
  writeFileSync(
    path.join(home, '.config/containers/policy.json'),
    '{"default":[{"type":"insecureAcceptAnything"}]}',
  )
  const env = {
    ...process.env,
    PATH: `${root}/usr/bin:${root}/usr/sbin:${root}/bin:${process.env.PATH}`,
    HOME: home,
    BUILDAH_ISOLATION: 'chroot',
  }
  // It copies no layers, but cannot lie on another of its kind.
  const driver = statfsSync(storage).type === OVERLAYFS ? 'vfs' : 'overlay'
  const store = ['--storage-driver', driver, '--root', `${storage}/root`, '--runroot', `${storage}/run`]
  return {
    env,
    policy,
    mmdebstrap: (...args) => run(env, 'mmdebstrap', args),
    buildah: (...args) => run(env, 'buildah', [...store, ...args]),
    /** gVisor. */
    runsc: path.join(root, 'usr/bin/runsc'),
    /** The first words of a podman command. The host has no systemd, and its control groups are left alone. */
    podman: [
      path.join(root, 'usr/bin/podman'),
      ...store,
      '--conmon',
      path.join(root, 'usr/bin/conmon'),
      '--runtime',
      path.join(root, 'usr/bin/crun'),
      '--cgroup-manager',
      'cgroupfs',
      '--events-backend',
      'none',
    ],
  }
}

/** Makes the programs find their libraries in the cache. buildah restarts itself with an empty environment. */
function useOwnLibraries(unpacked, root) {
  const libraries = path.join(unpacked, LIBRARIES)
  const files = readdirSync(libraries).filter((name) => name.includes('.so.'))
  for (const file of [
    ...['buildah', 'podman', 'crun', 'conmon'].map((name) => path.join(unpacked, 'usr/bin', name)),
    ...files.map((name) => path.join(libraries, name)).filter((file) => !lstatSync(file).isSymbolicLink()),
  ]) {
    run(process.env, path.join(unpacked, 'usr/bin/patchelf'), [
      '--set-rpath',
      path.join(root, LIBRARIES),
      file,
    ])
  }
}

function run(env, program, args) {
  try {
    return execFileSync(program, args, { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
  } catch (error) {
    const lines = `${error.stdout ?? ''}${error.stderr ?? ''}`.trim().split('\n')
    throw new Problem(`${program} failed: ${lines.slice(-15).join('\n')}`)
  }
}
