/**
 * No control groups, read-only ones, no /proc/<pid>/fd, no pidfds, no child subreapers. Everything works by the fallback, and
 * `capabilities()` says which.
 *
 * Each is had in two ways: by nacre's own switch, and by really taking it away from a host in a process of its own.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { compile, type Library } from '../helpers/preload.js'

/** A host that is not dumpable, or in which system calls are unknown (seccomp(2)): those for pidfds or child subreapers. */
const poorer = `
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void without_pidfds(void) {
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

static void without_subreapers(void) {
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_CHILD_SUBREAPER, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_CHILD_SUBREAPER, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
  };
  struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

__attribute__((constructor)) static void impoverish(void) {
  if (getenv("TEST_WITHOUT_PIDFDS")) without_pidfds();
  if (getenv("TEST_WITHOUT_SUBREAPERS")) without_subreapers();
  if (getenv("TEST_NOT_DUMPABLE")) prctl(PR_SET_DUMPABLE, 0);
}
`

/** Where version 2 is mounted, the hybrid layout included. */
const cgroupMount = readFileSync('/proc/self/mountinfo', 'latin1')
  .split('\n')
  .find((line) => line.includes(' - cgroup2 '))
  ?.split(' ')[4]

/** A mount namespace in which a command has been run first. */
const mounting = (command: string) => ['unshare', '-m', 'sh', '-c', `${command}; exec "$0" "$@"`]
const readOnly = mounting(`mount -o bind,remount,ro '${cgroupMount}'`)
const unmounted = mounting(`umount -l '${cgroupMount}'`)
const mayMount =
  spawnSync('unshare', ['-m', 'mount', '-o', 'bind,remount,ro', cgroupMount ?? '']).status === 0

interface Lack {
  name: string
  env?: Record<string, string>
  /** Something of the library's is to be missing in the host. */
  preload?: boolean
  wrapper?: string[]
  expected: { cgroup?: 'none'; pidfd?: false; engine?: 'plain' }
  notes: RegExp[]
  impossible?: boolean
}

const noGroups = /control groups are (switched off|not used).*; trees are killed by the subreaper/
const noSubreapers = /child subreapers are missing .*: a pid namespace of each session replaces them/
const noPidfds = /pidfds are not available; processes are identified by their start time/

const lacks: Lack[] = [
  {
    name: 'control groups, by the switch',
    env: { NACRE_CONTAINMENT: 'subreaper' },
    expected: { cgroup: 'none' },
    notes: [noGroups],
  },
  {
    name: 'control groups that can be written',
    wrapper: readOnly,
    expected: { cgroup: 'none' },
    notes: [/control groups are not used: .*Read-only file system.*; trees are killed by the subreaper/],
    impossible: !mayMount,
  },
  {
    name: 'control groups that are mounted',
    wrapper: unmounted,
    expected: { cgroup: 'none' },
    notes: [
      /control groups are not used: no cgroup v2 hierarchy is mounted; trees are killed by the subreaper/,
    ],
    impossible: !mayMount,
  },
  {
    name: 'pidfds, by the switch',
    env: { NACRE_PIDFD: 'off' },
    expected: { pidfd: false },
    notes: [noPidfds],
  },
  {
    name: 'pidfds, by seccomp',
    env: { TEST_WITHOUT_PIDFDS: '1' },
    preload: true,
    expected: { pidfd: false },
    notes: [noPidfds],
  },
  {
    name: 'access to its own /proc/<pid>/fd, in a host that is not dumpable',
    env: { TEST_NOT_DUMPABLE: '1' },
    preload: true,
    expected: {},
    notes: [],
  },
  {
    name: 'child subreapers',
    env: { TEST_WITHOUT_SUBREAPERS: '1' },
    preload: true,
    expected: { engine: 'plain' },
    notes: [noSubreapers],
  },
  {
    name: 'all of these',
    env: {
      ...{ NACRE_CONTAINMENT: 'subreaper', TEST_WITHOUT_PIDFDS: '1', TEST_NOT_DUMPABLE: '1' },
      TEST_WITHOUT_SUBREAPERS: '1',
    },
    preload: true,
    expected: { cgroup: 'none', pidfd: false, engine: 'plain' },
    notes: [noGroups, noPidfds, noSubreapers],
  },
]

/** A bit of everything that the missing things are for. */
const program = (stateDir: string) => `
  const fs = require('fs')
  const sandbox = new Sandbox({ cwd: '/tmp', stateDir: ${JSON.stringify(stateDir)} })
  const run = (command, options) => sandbox.exec(command, options).then(
    ({ stdout, exitCode, signal }) => [stdout, exitCode, signal],
    ({ code, result }) => [result?.stdout, code],
  )
  // What had not printed anything at its timeout is run again with more time.
  const overrun = async (command) => {
    for (let timeout = 150; ; timeout *= 2) {
      const end = await run(command, { timeout, forceKillAfterDelay: 100 })
      if (end[0] === 'out\\n' || timeout > 2000) return end
    }
  }
  const words = (pid) => { try { return fs.readFileSync('/proc/' + pid + '/cmdline', 'latin1') } catch { return '' } }
  const alive = (nap) => fs.readdirSync('/proc').filter((pid) => words(pid) === 'sleep\\0' + nap + '\\0').length
  const main = async () => {
    const [job, escape] = [process.pid + '001', process.pid + '002']
    const steps = [
      await run('x=1; f() { echo f; }; cd /usr; sleep ' + job + ' &'),
      await run('x=2; exit 3'),
      await run('echo $x; f; pwd'),
      await run('kill -9 $$'),
      await run('cat; echo $x; f; pwd', { input: 'in\\n' }),
      await overrun('echo out; setsid setsid sleep ' + escape + ' & (nohup sleep ' + escape + ' >/dev/null &); sleep ' + escape),
      ['left of the command', alive(escape)],
      ['left of the one before', alive(job)],
      await run('echo $x; pwd', { cwd: '/', env: { x: 'y' } }),
      await run('head -c 3M /dev/zero | wc -c'),
      await Promise.all([1, 2, 3].map(async (n) => (await (await sandbox.createSession()).exec('echo ' + n)).stdout)),
    ]
    const capabilities = await sandbox.capabilities()
    await sandbox.destroy()
    print('RESULT ' + JSON.stringify({ capabilities, steps }))
  }
  main()
`

const steps = [
  ['', 0, null],
  ['', 3, null],
  ['2\nf\n/usr\n', 0, null],
  ['', 137, 'SIGKILL'],
  ['in\n2\nf\n/usr\n', 0, null],
  ['out\n', 'COMMAND_TIMEOUT'],
  ['left of the command', 0],
  ['left of the one before', 1],
  ['y\n/\n', 0, null],
  ['3145728\n', 0, null],
  ['1\n', '2\n', '3\n'],
]

describe('a system without', () => {
  let library: Library | undefined
  beforeAll(() => {
    library = compile(poorer)
  })
  afterAll(() => library?.remove())

  for (const { name, env, preload, wrapper, expected, notes, impossible = false } of lacks) {
    it.skipIf(impossible)(name, async () => {
      const stateDir = mkdtempSync(path.join(os.tmpdir(), 'nacre-lack-'))
      const loaded: Record<string, string> = preload ? { LD_PRELOAD: library?.file ?? '' } : {}
      const host = startHost(program(stateDir), wrapper, { ...env, ...loaded })
      expect(await host.ended(), host.output()).toBe(0)
      await expectGone(host.tag)
      expect(readdirSync(stateDir)).toEqual([])
      rmSync(stateDir, { recursive: true })
      const { capabilities, ...rest } = JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')
      expect(rest).toEqual({ steps })
      expect(capabilities).toMatchObject(expected)
      for (const note of notes) expect(capabilities.notes.join('\n')).toMatch(note)
    })
  }
})
