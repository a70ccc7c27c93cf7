/** A session whose supervisor does not answer, ends, or misses something of the system. The stand-ins are scripts. */
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'

const root = path.dirname(path.dirname(__dirname))
const native = path.join(root, 'native', process.env.NACRE_NATIVE ?? 'release')

/** What becomes of a program whose supervisor is this script. `REAL` is the real one. */
async function run(script: string, program: string, env: Record<string, string> = {}): Promise<string[]> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-stand-in-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  symlinkSync(path.join(native, 'nacre.node'), path.join(directory, 'nacre.node'))
  const supervisor = path.join(directory, 'nacre-supervisor')
  writeFileSync(supervisor, script.replaceAll('REAL', path.join(native, 'nacre-supervisor')))
  chmodSync(supervisor, 0o755)
  const whole = `
    const sandbox = new Sandbox({ cwd: '/tmp' })
    const ended = (call) => call.then(({ stdout }) => print('= ' + stdout.trim()), ({ code, message }) => print('= ' + code + ': ' + message))
    const main = async () => { ${program}; await sandbox.destroy(); print('= destroyed') }
    main()
  `
  const host = startHost(whole, [], { ...env, NACRE_NATIVE_PATH: directory })
  expect(await host.ended(60_000)).toBe(0)
  await expectGone(host.tag)
  const lines = host
    .output()
    .split('\n')
    .filter((line) => line.startsWith('= '))
  return lines.map((line) => line.slice(2).replaceAll(supervisor, 'SUPERVISOR'))
}

const pidfds: Array<Record<string, string>> = [{}, { NACRE_PIDFD: 'off' }]

it.each(pidfds)('a supervisor that never answers holds up neither timeouts nor destroy, %o', async (env) => {
  const program = `
    await Promise.all([
      ended(sandbox.exec('true', { timeout: 900 })),
      ended(sandbox.exec('true', { timeout: 300 })),
    ])
    await ended(sandbox.exec('true', { timeout: 200 }))
  `
  const lines = await run('#!/bin/sh\nexec sleep 600\n', program, env)
  const late = (ms: number) =>
    expect.stringMatching(
      new RegExp(`^COMMAND_TIMEOUT: .*did not start within its timeout, .* after ${ms} ms$`),
    )
  expect(lines).toEqual([late(300), late(900), late(200), 'destroyed'])
})

it('a supervisor that never answers is an error for calls without a timeout', async () => {
  const lines = await run('#!/bin/sh\nexec sleep 600\n', `await ended(sandbox.exec('true'))`)
  expect(lines).toEqual([
    expect.stringMatching(/^SPAWN_FAILED: the supervisor SUPERVISOR has not answered within \d+ s: /),
    'destroyed',
  ])
})

it.each(
  pidfds.flatMap((env) => [
    { how: 'silently', script: 'exit 0', env },
    { how: 'by a signal', script: 'kill -9 $$', env },
    // Like the real one, it leads a session, by which the host finds what it leaves behind.
    {
      how: 'while another process has its socket',
      script: `exec setsid sh -c 'sleep 600 <&0 & exit 0'`,
      env,
    },
    { how: 'its connection and lives on', script: 'exec sleep 600 < /dev/null', env },
  ]),
)('a supervisor that ends $how is an error at once, $env', async ({ script, env }) => {
  const program = `await ended(sandbox.exec('true')); await ended(sandbox.exec('true', { timeout: 60000 }))`
  const lines = await run(`#!/bin/sh\n${script}\n`, program, env)
  const silent =
    'SPAWN_FAILED: the supervisor SUPERVISOR ended before it could start the shell: it gave no reason'
  expect(lines).toEqual([silent, silent, 'destroyed'])
})

/** Refuses PR_SET_CHILD_SUBREAPER as a kernel without it does, and unshare(2), and starts the real supervisor. */
const WITHOUT_ADOPTION = `#!/usr/bin/perl
use strict;
my ($prctl, $unshare) = ${process.arch === 'arm64' ? '(167, 97)' : '(157, 272)'};
my @filter = ([0x20, 0, 0, 0], [0x15, 4, 0, $unshare], [0x15, 0, 4, $prctl], [0x20, 0, 0, 16], [0x15, 0, 2, 36], [0x06, 0, 0, 0x00050016], [0x06, 0, 0, 0x00050001], [0x06, 0, 0, 0x7fff0000]);
my $code = join '', map { pack 'S C C L', @$_ } @filter;
my $program = pack 'S x6 P', scalar(@filter), $code;
syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
syscall($prctl, 22, 2, $program, 0, 0) == 0 or die "seccomp: $!";
exec 'REAL', @ARGV;
`

it.each(pidfds)(
  'a system with neither child subreapers nor pid namespaces is named with a remedy, %o',
  async (env) => {
    const lines = await run(WITHOUT_ADOPTION, `await ended(sandbox.exec('true', { timeout: 60000 }))`, env)
    expect(lines).toEqual([
      expect.stringMatching(
        /^SPAWN_FAILED: cannot prepare the shell: .*no child subreapers .*pid namespaces.*not permitted.*capability SYS_ADMIN, or update its runtime/i,
      ),
      'destroyed',
    ])
  },
)

it('a timeout includes the start of the shell', async () => {
  const program = `
    await Promise.all([
      // What is left of it is the time that the command may run.
      sandbox.exec('sleep 600', { timeout: 3000 }).catch(({ code, result }) => print('= ' + code + (result.duration < 2500))),
      ended(sandbox.exec('echo behind it', { timeout: 60_000 })),
    ])
    await ended(sandbox.exec('echo works'))
  `
  const lines = await run('#!/bin/sh\nsleep 1\nexec REAL "$@"\n', program)
  expect(lines).toEqual(['COMMAND_TIMEOUTtrue', 'behind it', 'works', 'destroyed'])
})
