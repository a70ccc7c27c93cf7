/**
 * Builds the container image of the Dockerfile and tests it: `npm run test:image`, as root.
 *
 *   node scripts/test-image.mjs [--built]
 *
 * --built: the packages are already in `target/packages`.
 *
 * buildah and podman come from Debian, and so does the Dockerfile's base image: no image registry is needed. The containers
 * get their own network, where nothing else uses a port.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeBase } from './image/base.mjs'
import { openTools } from './image/tools.mjs'
import { main, Problem } from './packages/problem.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const target = `linux-${process.arch}-gnu`

await main(() => {
  if (!process.argv.includes('--built')) node({}, 'scripts/build-packages.mjs', target)
  const tarball = path.join(root, 'target/packages', `nacre-${target}-${version}.tgz`)
  if (!existsSync(tarball))
    throw new Problem(`The image is made of the packages, and ${tarball} does not exist.`)
  const storage = mkdtempSync(path.join(os.tmpdir(), 'nacre-image-'))
  try {
    const tools = openTools(storage)
    const image = `localhost/nacre:${version}`
    const base = makeBase(tools, path.join(root, 'Dockerfile'))
    const cpu = process.arch === 'x64' ? 'amd64' : process.arch
    const settings = [
      '--format',
      'docker',
      '--signature-policy',
      tools.policy,
      '--pull-never',
      '--network',
      'host',
    ]
    const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim()
    const given = ['--build-arg', `TARGETARCH=${cpu}`, '--build-arg', `NPM_CONFIG_REGISTRY=${registry}`]
    tools.buildah('bud', ...settings, ...given, ...certificates(), '--tag', image, root)
    test(tools, { podman: tools.podman, home: tools.env.HOME, image, base })
  } finally {
    rmSync(storage, { recursive: true, force: true })
  }
})

/** The certificates that npm trusts here, for the build. */
function certificates() {
  const { NODE_EXTRA_CA_CERTS: file = '' } = process.env
  if (file === '') return []
  const inside = '/tmp/certificates.crt'
  return ['--volume', `${file}:${inside}:ro`, '--build-arg', `NODE_EXTRA_CA_CERTS=${inside}`]
}

/**
 * Runs the tests in separate namespaces: for mounts, since podman needs control groups of version 2 at the usual place, and
 * for the network.
 */
function test({ env }, image) {
  const unified = '/sys/fs/cgroup/unified'
  const prepare = existsSync(unified) ? `mount --bind ${unified} /sys/fs/cgroup && ` : ''
  const script = `${prepare}busybox ifconfig lo up && exec "$@"`
  const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'image']
  const args = ['--mount', '--net', '--propagation', 'private', 'sh', '-c', script, 'sh', ...vitest]
  run({ ...env, HOME: process.env.HOME, NACRE_TEST_IMAGE: JSON.stringify(image) }, 'unshare', ...args)
}

function node(env, ...args) {
  run({ ...process.env, ...env }, process.execPath, ...args)
}

function run(env, program, ...args) {
  try {
    execFileSync(program, args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] })
  } catch {
    throw new Problem('The test of the image failed; the reason is above.')
  }
}
