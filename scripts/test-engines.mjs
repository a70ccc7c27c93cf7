/**
 * Runs the tests of `openSandbox` with real container engines: `npm run test:engines`, as root. Those that make sense there also
 * run with gVisor, and with NACRE_TEST_RUNTIME=runsc only those.
 *
 * Podman comes from Debian, and so do the images: no image registry is needed.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeBase } from './image/base.mjs'
import { openTools } from './image/tools.mjs'
import { CACHE } from './packages/cache.mjs'
import { main, Problem } from './packages/problem.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

await main(() => {
  // Podman refuses a directory for its state whose path is longer than 50 characters: the temporary one may be deep already.
  const storage = mkdtempSync(path.join(os.tmpdir(), 'e-'))
  try {
    const tools = openTools(storage)
    const podman = (...args) =>
      execFileSync(tools.podman[0], [...tools.podman.slice(1), ...args], { env: tools.env, stdio: 'pipe' })
    podman('tag', makeBase(tools, path.join(root, 'Dockerfile')), 'docker.io/library/node:22')
    podman('import', path.join(CACHE, 'image-base/bookworm.tar'), 'localhost/debian:12')
    podman('import', withoutBash(storage), 'localhost/busybox:1')
    cacheBun()
    const programs = writeProgram(storage, tools)
    const { NACRE_TEST_RUNTIME: runtime } = process.env
    const files = process.argv.slice(2)
    if (runtime === undefined) test(tools, programs, files)
    if (runtime === undefined && files.length > 0) return
    test({ ...tools, env: { ...tools.env, NACRE_TEST_RUNTIME: 'runsc' } }, programs, [
      'podman.test.ts',
      ...files,
    ])
  } finally {
    rmSync(storage, { recursive: true, force: true })
  }
})

/** The tests have no network. */
function cacheBun() {
  const name = `@oven/bun-linux-${{ x64: 'x64', arm64: 'aarch64' }[process.arch]}`
  const { version } = JSON.parse(readFileSync(path.join(root, 'node_modules', name, 'package.json'), 'utf8'))
  execFileSync('npm', ['cache', 'add', `${name}@${version}`], { stdio: 'pipe' })
}

/** The root directory of an image that has a shell, but no bash. */
function withoutBash(storage) {
  const directory = path.join(storage, 'busybox')
  mkdirSync(path.join(directory, 'bin'), { recursive: true })
  copyFileSync(path.join(CACHE, 'image-tools/root/bin/busybox'), path.join(directory, 'bin/busybox'))
  symlinkSync('busybox', path.join(directory, 'bin/sh'))
  execFileSync('tar', ['-C', directory, '-cf', `${directory}.tar`, '.'])
  return `${directory}.tar`
}

/**
 * A program `podman` with the store of the tests, which knows `runsc` as a runtime. This machine may have no networks of
 * containers, no control groups and no hardware virtualization.
 */
function writeProgram(storage, { podman, env, runsc }) {
  const directory = path.join(storage, 'bin')
  mkdirSync(directory)
  const file = path.join(directory, 'podman')
  writeFileSync(
    path.join(directory, 'runsc'),
    `#!/bin/sh\nexec '${runsc}' --platform=ptrace --network=none --ignore-cgroups "$@"\n`,
    { mode: 0o755 },
  )
  const settings = path.join(storage, 'containers.conf')
  writeFileSync(settings, `[engine.runtimes]\nrunsc = ["${directory}/runsc"]\n`)
  const words = podman.map((word) => `'${word}'`).join(' ')
  writeFileSync(
    file,
    `#!/bin/bash
export HOME='${env.HOME}' PATH='${env.PATH}' CONTAINERS_CONF='${settings}'
verb=$1
shift
settings=()
if [ "$verb" = run ]; then
  settings=(--cgroups=disabled --ulimit=nofile=1024:20000 --ulimit=nproc=1024:1024)
  # Only crun can do without.
  [[ " $* " == *' --runtime runsc '* ]] && settings[0]=--cgroups=no-conmon
  [[ " $* " == *' --network '* ]] || settings+=(--network=host)
fi
exec ${words} "$verb" "\${settings[@]}" "$@"
`,
  )
  chmodSync(file, 0o755)
  return directory
}

/** In namespaces of their own: podman needs control groups of version 2 at the usual place, and a network without others' ports. */
function test({ env }, programs, files) {
  const unified = '/sys/fs/cgroup/unified'
  const prepare = existsSync(unified) ? `mount --bind ${unified} /sys/fs/cgroup && ` : ''
  const script = `${prepare}busybox ifconfig lo up && exec "$@"`
  const vitest = [process.execPath, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'engines', ...files]
  const args = ['--mount', '--net', '--propagation', 'private', 'sh', '-c', script, 'sh', ...vitest]
  try {
    execFileSync('unshare', args, {
      cwd: root,
      env: { ...env, HOME: process.env.HOME, NACRE_TEST_ENGINES: programs },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
  } catch {
    throw new Problem('The tests with container engines failed; the reason is above.')
  }
}
