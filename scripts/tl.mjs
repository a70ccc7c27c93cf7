/**
 * Tests limits with real controllers, in a User Mode Linux guest that only has control groups of version 2.
 *
 *   node scripts/test-limits.mjs [--debug]      after a build of the same kind
 *
 * On many machines the controllers for memory and processes belong to version 1, and only the machine's root can change
 * that. The guest shares this machine's files read-only and runs `guest/limits.mjs` as root. Its kernel is a Debian package
 * that is fetched and unpacked into a cache, not installed. If it cannot be fetched, prints that and succeeds, since
 * nothing is wrong with nacre then.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const cache = path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'nacre-guest')
const kernel = path.join(cache, 'root/usr/bin/linux.uml')
const LIMIT_MS = 180_000

function skip(reason) {
  console.log(`limits: NOT TESTED, ${reason}`)
  process.exit(0)
}

/** Downloads with separate package lists, so that the system's stay unchanged. */
function fetchKernel() {
  for (const directory of ['lists/partial', 'archives/partial'])
    mkdirSync(path.join(cache, directory), { recursive: true })
  const options = [
    ['Dir::State::Lists', 'lists'],
    ['Dir::Cache', '.'],
    ['Dir::Cache::archives', 'archives'],
  ].flatMap(([name, directory]) => ['-o', `${name}=${path.join(cache, directory)}`])
  const run = (program, args) =>
    execFileSync(program, args, { cwd: cache, stdio: ['ignore', 'ignore', 'pipe'], timeout: 120_000 })
  try {
    run('apt-get', [...options, 'update'])
    run('apt-get', [...options, 'download', 'user-mode-linux'])
    const package_ = readdirSync(cache).find((name) => name.endsWith('.deb'))
    run('dpkg', ['-x', package_, 'root'])
    rmSync(path.join(cache, package_))
  } catch (error) {
    skip(
      `the guest's kernel (Debian package user-mode-linux) cannot be fetched: ${error.message.split('\n')[0]}`,
    )
  }
}

/** The guest's first process: mounts file systems and control groups with all controllers, then runs the tests. */
function init(build) {
  return `#!/bin/bash
export PATH='${process.env.PATH}' HOME=/tmp NACRE_NATIVE='${build}'
mount -t proc proc /proc; mount -t sysfs sys /sys
mkdir -p /dev/shm /dev/pts; mount -t tmpfs shm /dev/shm; mount -t devpts pts /dev/pts
ln -sf /proc/self/fd /dev/fd
mount -t tmpfs tmp /tmp
mkdir -p '${root}' && mount -t hostfs none '${root}' -o '${root}'
mount -t cgroup2 -o nsdelegate cg /sys/fs/cgroup
mkdir /sys/fs/cgroup/init; echo $$ >/sys/fs/cgroup/init/cgroup.procs
echo '+cpu +memory +pids +io' >/sys/fs/cgroup/cgroup.subtree_control
cd /tmp && '${process.execPath}' '${root}/guest/limits.mjs'; echo "guest: exit code $?"
'${process.execPath}' -e 'require("node:fs").writeFileSync("/proc/sysrq-trigger", "o")'
sleep 5
`
}

if (process.platform !== 'linux' || process.arch !== 'x64') skip('the guest is for Linux on x64')
if (!existsSync(kernel)) fetchKernel()
const script = path.join(cache, 'init.sh')
writeFileSync(script, init(process.argv.includes('--debug') ? 'debug' : 'release'), { mode: 0o755 })
const guest = spawn(
  kernel,
  [
    'mem=1G',
    'rootfstype=hostfs',
    'rootflags=/',
    'ro',
    `init=${script}`,
    'con=null',
    'con0=fd:0,fd:1',
    'con1=null',
    'quiet',
  ],
  { env: { ...process.env, TMPDIR: '/dev/shm', LD_PRELOAD: '/dev/shm/lx.so' }, stdio: ['ignore', 'pipe', 'ignore'], detached: true },
)
let output = ''
guest.stdout.setEncoding('utf8').on('data', (text) => {
  output += text
  process.stdout.write(text)
})
const stop = () => {
  try {
    process.kill(-guest.pid, 'SIGKILL')
  } catch {
    // It has ended.
  }
}
const timer = setTimeout(stop, LIMIT_MS)
const watch = setInterval(() => {
  if (output.includes('guest: exit code ')) stop()
}, 100)
guest.on('close', () => {
  clearTimeout(timer)
  clearInterval(watch)
  const code = /guest: exit code (\d+)/.exec(output)?.[1]
  if (code === undefined && output === '') skip('the guest does not start on this machine')
  process.exit(code === '0' ? 0 : 1)
})
