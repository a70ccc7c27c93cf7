/** A session's shell, its standby or its supervisor is killed, while idle and while a command runs. */
import { execFileSync } from 'node:child_process'
import { copyFileSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { killAtOnce, prepare } from '../helpers/family.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { made } from '../helpers/stream.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

const state = "x=1; a=(p 'q r'); f() { echo f; }; set -o pipefail; trap 'echo u' USR1; cd /usr"
const look = 'echo $x "${a[1]}"; f; set -o | grep pipefail | cut -f2; kill -USR1 $$; pwd'
const seen = '1 q r\nf\non\nu\n/usr\n'

const { isolation, cgroup } = await new Sandbox().capabilities()
const hasPidNamespaces = isolation.processes === 'namespace'

itInEveryMode('a shell killed while idle comes back with its state', async (place) => {
  const { shell } = await prepare(place, state)
  killAtOnce(shell)
  const { stdout, sessionRestarted } = await place.sandbox.exec(look)
  expect(stdout).toBe(seen)
  expect(sessionRestarted).toBe(true)
  expect((await place.sandbox.exec('true')).sessionRestarted).toBe(false)
})

itInEveryMode('a shell killed while a command runs: the call reports it, the state stays', async (place) => {
  const { sandbox } = place
  const { shell } = await prepare(place, state)
  const nap = proc.uniqueSleep()
  const run = sandbox.exec(`x=2; echo out; ${nap}`)
  const queued = sandbox.exec(look)
  await holds(() => proc.runs(nap))
  proc.kill(shell)
  expect(await run).toMatchObject({
    success: false,
    exitCode: 137,
    signal: 'SIGKILL',
    stdout: 'out\n',
    sessionRestarted: true,
  })
  expect(await queued).toMatchObject({ stdout: seen, sessionRestarted: false })
})

itInEveryMode(
  'a supervisor killed while idle: the session comes back without its processes',
  async (place) => {
    const { sandbox } = place
    const nap = proc.uniqueSleep()
    // Without a control group a process that has made a session of its own is out of reach once its supervisor is dead.
    const leaves =
      (await sandbox.capabilities()).cgroup === 'v2' && process.env.NACRE_CONTAINMENT === undefined
    await sandbox.exec(leaves ? `${nap} & setsid ${nap} &` : `${nap} &`)
    const { shell, supervisor } = await prepare(place, state)
    killAtOnce(supervisor, shell)
    const { stdout, sessionRestarted } = await sandbox.exec(look)
    expect(stdout).toBe(seen)
    expect(sessionRestarted).toBe(true)
    expect(proc.runs(nap)).toBe(false)
  },
)

itInEveryMode(
  'a supervisor killed while a command runs: the call rejects immediately and names what died',
  async (place) => {
    const { sandbox } = place
    const { supervisor } = await prepare(place, state)
    const nap = proc.uniqueSleep()
    const run = rejectionOf(sandbox.exec(`x=2; echo out; ${nap}`))
    const queued = sandbox.exec(look)
    await holds(() => proc.runs(nap))
    proc.kill(supervisor)
    const rejection = await run
    expect(rejection).toMatchObject({ code: 'ENGINE_ERROR', result: { stdout: 'out\n' } })
    expect(rejection.message).toContain('supervisor')
    expect(await queued).toMatchObject({ stdout: seen })
    expect(proc.runs(nap)).toBe(false)
  },
)

it.each([...modes, ...plain])(
  'a command that kills its supervisor is answered once all its processes are dead, $name',
  (mode) =>
    withSandboxIn(mode, async ({ sandbox }) => {
      for (let round = 0; round < 10; round++) {
        const nap = proc.uniqueSleep()
        const many = `for i in {1..30}; do ${nap} & done; kill -9 $PPID; ${nap}`
        expect(await rejectionOf(sandbox.exec(many))).toMatchObject({ code: 'ENGINE_ERROR' })
        expect(proc.runs(nap)).toBe(false)
      }
    }),
)

itInEveryMode('a standby killed, and the shell after it: the session lives', async (place) => {
  const { sandbox } = place
  const { shell, standby } = await prepare(place, state)
  proc.kill(standby)
  proc.kill(shell)
  await sandbox.exec('true')
  expect(await sandbox.exec('echo on')).toMatchObject({ stdout: 'on\n', sessionRestarted: false })
})

itInEveryMode('a stopped standby is continued when it becomes the shell', async (place) => {
  const { shell, standby } = await prepare(place, state)
  process.kill(standby, 'SIGSTOP')
  killAtOnce(shell)
  expect(await place.sandbox.exec(look)).toMatchObject({ stdout: seen, sessionRestarted: true })
})

itInEveryMode('a stopped standby is continued when a process is forked from it', async (place) => {
  const { sandbox, directory } = place
  const { standby } = await prepare(place, state)
  process.kill(standby, 'SIGSTOP')
  const command = sandbox.exec(`: >${directory}/begun; until [ -e ${directory}/end ]; do sleep 0.01; done`)
  await made(directory, 'begun')
  const found = await sandbox.startProcess('echo "$x"')
  expect(await found.waitForExit()).toMatchObject({ exitCode: 0 })
  await sandbox.files.write(`${directory}/end`, '')
  await command
})

itInEveryMode('a stopped standby is continued, although commands end in the meantime', async (place) => {
  const { sandbox } = place
  const { standby } = await prepare(place, ':')
  process.kill(standby, 'SIGSTOP')
  const starting = sandbox.startProcess('true')
  let has = false
  const started = starting.finally(() => {
    has = true
  })
  // Ends before the standby is looked at, and keeps the state: no other standby follows.
  await sandbox.exec('true')
  await holds(() => has)
  expect(await (await started).waitForExit()).toMatchObject({ exitCode: 0 })
})

itInEveryMode(
  'an idle shell that is stopped is continued when it must fork a process',
  async ({ sandbox }) => {
    await sandbox.exec('true')
    // Without a pause, so that no standby has the present state.
    const { stdout } = await sandbox.exec('x=2; echo $$')
    process.kill(Number(stdout), 'SIGSTOP')
    const found = await sandbox.startProcess('exit $x')
    expect(await found.waitForExit()).toMatchObject({ exitCode: 2 })
  },
)

itInEveryMode('an idle shell that is stopped is continued when variables are set', async (place) => {
  const { sandbox } = place
  // With a standby that has its state, nothing else is asked of the shell.
  const { shell } = await prepare(place, state)
  process.kill(shell, 'SIGSTOP')
  await sandbox.setEnvVars({ SET: 'yes' })
  expect((await sandbox.exec('echo $SET')).stdout).toBe('yes\n')
})

itInEveryMode(
  'a supervisor that is stopped is continued when it must obey',
  async ({ sandbox, directory }) => {
    const { stdout } = await sandbox.exec('echo $$ $PPID')
    const [shell = 0, supervisor = 0] = stdout.split(' ').map(Number)
    const sleeper = await sandbox.startProcess('exec sleep 1000')
    process.kill(supervisor, 'SIGSTOP')
    process.kill(shell, 'SIGSTOP')
    expect((await sandbox.exec('echo on')).stdout).toBe('on\n')
    process.kill(supervisor, 'SIGSTOP')
    await sandbox.files.write(`${directory}/file`, 'written')
    process.kill(supervisor, 'SIGSTOP')
    expect(await sleeper.kill('SIGUSR1')).toBe(true)
    expect(await sleeper.waitForExit()).toMatchObject({ signal: 'SIGUSR1' })
  },
)

// Everything of a session can be stopped at once only in a pid namespace: the command would stop this machine.
it.skipIf(!hasPidNamespaces)('a session whose processes are all stopped continues', () => {
  const test = async ({ sandbox }: Workplace) => {
    const { stdout } = await sandbox.exec(`${state}; echo $$`)
    // An ordinary user cannot see the tag of a shell.
    const shell = proc.descendants(process.pid).find(({ pid }) => proc.ownPid(pid) === Number(stdout))
    // It runs behind a standby with that state.
    await sandbox.exec('true')
    const namespace = readlinkSync('/proc/self/ns/pid')
    const stopper = await sandbox.startProcess(
      `[[ $(readlink /proc/self/ns/pid) != "${namespace}" ]] && kill -STOP -1 && kill -9 ${Number(stdout)}`,
    )
    expect(await stopper.waitForExit()).toMatchObject({ exitCode: 0 })
    // A shell that was killed while it waits for a processor still takes a command, which then counts as killed.
    await until(
      () => (shell !== undefined && !proc.isAlive(shell.pid)) || undefined,
      () => `the shell does not end: ${shell?.pid}`,
    )
    expect(await sandbox.exec(look, { timeout: 20_000 })).toMatchObject({ stdout: seen })
  }
  return withSandbox(test, { options: { isolation: { processes: 'own' } } })
})

it.skipIf(cgroup !== 'v2')('a standby that cannot become the shell is killed, and a new shell starts', () =>
  withSandbox(async (place) => {
    const { shell, standby } = await prepare(place, state)
    const freeze = path.join(proc.groupOf(standby) ?? '', 'cgroup.freeze')
    writeFileSync(freeze, '1')
    killAtOnce(shell)
    const result = place.sandbox.exec('echo "[$x]"')
    await until(
      () => !proc.isAlive(standby) || undefined,
      () => 'the standby lives',
      30_000,
    )
    // The new shell starts in the same group.
    writeFileSync(freeze, '0')
    expect(await result).toMatchObject({ stdout: '[]\n', sessionRestarted: true })
  }),
)

itInEveryMode('a standby that is stopped while it receives a request is continued', async (place) => {
  const { sandbox, directory } = place
  const cpu = /Cpus_allowed_list:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'
  const load = await sandbox.startProcess(
    `until [ -e begun ]; do sleep 0.01; done; : >busy; taskset --cpu-list ${cpu} bash -c 'while :; do :; done'`,
  )
  const { standby } = await prepare(place, state)
  execFileSync('chrt', ['--idle', '--pid', '0', String(standby)], { stdio: 'ignore' })
  execFileSync('taskset', ['--cpu-list', '--pid', cpu, String(standby)], { stdio: 'ignore' })
  const command = sandbox.exec(`cd ${directory}; : >begun; until [ -e end ]; do sleep 0.01; done`)
  await made(directory, 'busy')
  // It gets the processor only after the request has arrived: then it receives the request, and stops on its way back.
  process.kill(standby, 'SIGSTOP')
  const found = await sandbox.startProcess('exit $x')
  await load.kill()
  expect(await found.waitForExit()).toMatchObject({ exitCode: 1 })
  await sandbox.files.write(`${directory}/end`, '')
  await command
})

/** A sandbox with a copy of bash that the test may replace. */
async function withOwnBash(test: (workplace: Workplace, bash: string) => Promise<void>): Promise<void> {
  const place = temporary('nacre-test-shell-')
  const bash = path.join(place, 'bash')
  copyFileSync('/bin/bash', bash)
  await withSandbox((workplace) => test(workplace, bash), { options: { shell: bash } })
}

/** A shell that runs on may fork another standby between the two kills, and the session would live. */
function killBoth(standby: number, shell: number): void {
  proc.signal(shell, 'SIGSTOP')
  proc.kill(standby)
  proc.kill(shell)
}

it('processes of a session whose shell cannot be started again have ended', () =>
  withOwnBash(async (workplace, bash) => {
    const nap = proc.uniqueSleep()
    const process = await workplace.sandbox.startProcess(nap)
    const { shell, standby } = await prepare(workplace, state)
    rmSync(bash)
    killBoth(standby, shell)
    await rejectionOf(
      until(
        () => workplace.sandbox.exec('true').then(() => undefined),
        () => '',
      ),
    )
    await process.waitForExit()
    expect(proc.runs(nap)).toBe(false)
    copyFileSync('/bin/bash', bash)
  }))

it('processes of a session whose shells die as they start end with the next start, and are reported', () =>
  withOwnBash(async (workplace, bash) => {
    const { sandbox } = workplace
    const nap = proc.uniqueSleep()
    const process = await sandbox.startProcess(nap)
    const { shell, standby } = await prepare(workplace, state)
    rmSync(bash)
    writeFileSync(bash, '#!/bin/sh\nkill -9 $$\n', { mode: 0o755 })
    killBoth(standby, shell)
    await until(
      () =>
        sandbox.exec('true').then(
          () => undefined,
          () => true,
        ),
      () => 'the shell starts',
    )
    rmSync(bash)
    copyFileSync('/bin/bash', bash)
    await sandbox.exec('true')
    await process.waitForExit({ timeout: 10_000 })
    expect(proc.runs(nap)).toBe(false)
  }))

const input = 'typed\n'

itInEveryMode(
  'a command sent to a shell or a supervisor that has just died is run by the next shell',
  async ({ sandbox, directory }) => {
    for (let round = 0; round < 12; round++) {
      const { stdout } = await sandbox.exec('y=kept; echo $$ $PPID')
      const [shell = 0, supervisor = 0] = stdout.split(' ').map(Number)
      if (round % 3 === 2) killAtOnce(supervisor, shell)
      else killAtOnce(shell)
      const scope = round % 2 === 0 ? {} : { cwd: '/', env: { Z: 'z' } }
      const result = await sandbox.exec('cat; echo $Z', { input, ...scope })
      expect(result).toMatchObject({ stdout: `${input}${scope.env?.Z ?? ''}\n`, sessionRestarted: true })
      expect(await sandbox.exec('echo $Z; pwd')).toMatchObject({ stdout: `\n${directory}\n` })
    }
  },
)

itInEveryMode(
  'a shell killed in the moment of the next call: the call says so or runs',
  async ({ sandbox }) => {
    for (let round = 0; round < 20; round++) {
      const { stdout } = await sandbox.exec('echo $$')
      proc.kill(Number(stdout))
      // A token that is there when the kill arrives can still be read before it takes effect: it is unknown then
      // whether the command has begun, and it is not run a second time.
      const result = await sandbox.exec('echo ran')
      const expected =
        result.exitCode === 0 ? { stdout: 'ran\n' } : { exitCode: 137, signal: 'SIGKILL', stdout: '' }
      expect(result).toMatchObject({ ...expected, sessionRestarted: true })
      expect(await sandbox.exec('echo on')).toMatchObject({ stdout: 'on\n', sessionRestarted: false })
    }
  },
)
