/** A supervisor that is stopped, or killed in the very moment of the end. */
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Sandbox, Session } from 'nacre'
import { expect, it, onTestFinished } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

itInEveryMode(
  'a supervisor that a command stops is continued: timeouts, starts and kills work',
  async ({ sandbox }) => {
    await sandbox.exec('x=1')
    await sandbox.exec('kill -STOP $PPID')
    expect(await rejectionOf(sandbox.exec('sleep 60', { timeout: 100 }))).toMatchObject({
      code: 'COMMAND_TIMEOUT',
    })
    await sandbox.exec('kill -STOP $PPID')
    const process = await sandbox.startProcess('sleep 60')
    await sandbox.exec('kill -STOP $PPID')
    expect(await process.kill()).toBe(true)
    expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
  },
)

itInEveryMode(
  'a supervisor outlives every signal but SIGKILL, and only SIGSTOP stops it',
  async ({ sandbox }) => {
    const { stdout } = await sandbox.exec('x=1; echo $PPID')
    // SIGKILL is 9, and SIGSTOP 19.
    await sandbox.exec(
      'for signal in {1..64}; do case $signal in 9|19) ;; *) kill -$signal $PPID ;; esac; done',
    )
    const process = await sandbox.startProcess('sleep 60')
    expect(await process.kill()).toBe(true)
    expect(await rejectionOf(sandbox.exec('sleep 60', { timeout: 100 }))).toMatchObject({
      code: 'COMMAND_TIMEOUT',
    })
    expect((await sandbox.exec('echo $PPID')).stdout).toBe(stdout)
    expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
  },
)

itInEveryMode('a session whose supervisor is stopped can be deleted', async ({ sandbox }) => {
  const session = await sandbox.createSession({ id: 'one' })
  await session.exec('sleep 60 & kill -STOP $PPID')
  await sandbox.deleteSession('one')
})

itInEveryMode(
  'a supervisor killed in the instant of the end leaves nothing, and no file of the host is written to',
  async ({ sandbox, directory }) => {
    for (let round = 0; round < 15; round++) {
      const id = `s${round}`
      const session = await sandbox.createSession({ id })
      const { stdout } = await session.exec('sleep 60 & x=1; echo $PPID')
      const running = session.exec('sleep 60').catch(() => undefined)
      if (round % 3 === 0) await session.startProcess('sleep 60')
      proc.kill(Number(stdout))
      const deleted = sandbox.deleteSession(id)
      // Descriptors that have just been closed now stand for files of the host.
      const files = Array.from({ length: 40 }, (_, index) => path.join(directory, `${round}-${index}`))
      for (const file of files) writeFileSync(file, 'mine')
      const opened = files.map((file) => openSync(file, 'r+'))
      await deleted
      await running
      for (const descriptor of opened) closeSync(descriptor)
      for (const file of files) expect(readFileSync(file, 'utf8')).toBe('mine')
    }
  },
)

/** Starts processes until it is killed: a look at the process table never shows the last of them. */
const forking = 'for ((i = 0; i < 400; i++)); do sleep 60 & done; wait'

itInEveryMode(
  'a supervisor killed while a command forks leaves nothing when the session is deleted',
  async ({ sandbox }) => {
    for (let round = 0; round < 10; round++) {
      const session = await sandbox.createSession({ id: `s${round}` })
      const supervisor = await supervisorOf(session)
      const running = session.exec(forking).catch(() => undefined)
      await until(() => ofSession(supervisor).length > 10 || undefined, forksNothing)
      proc.kill(supervisor)
      await sandbox.deleteSession(`s${round}`)
      expect(ofSession(supervisor)).toEqual([])
      await running
    }
  },
)

itInEveryMode(
  'a supervisor killed while a subshell forks leaves nothing when the session has started again',
  async ({ sandbox }) => {
    for (let round = 0; round < 10; round++) {
      const supervisor = await supervisorOf(sandbox)
      await sandbox.exec(`(${forking}) > /dev/null 2>&1 & :`)
      await until(() => ofSession(supervisor).length > 10 || undefined, forksNothing)
      proc.kill(supervisor)
      const isNew = async () => (await supervisorOf(sandbox)) !== supervisor || undefined
      await until(isNew, () => 'the session did not start again')
      expect(ofSession(supervisor)).toEqual([])
    }
  },
)

it.each(modes)('a supervisor killed after a command with a terminal leaves nothing, $name', (mode) =>
  withSandboxIn(mode, async ({ sandbox }) => {
    // Its shell leads a session of its own from then on.
    await sandbox.exec(':', { pty: true })
    const [job, running, background] = [proc.uniqueSleep(), proc.uniqueSleep(), proc.uniqueSleep()]
    await sandbox.exec(`set -m; ${job} > /dev/null 2>&1 &`)
    await sandbox.startProcess(background)
    const supervisor = await supervisorOf(sandbox)
    const call = sandbox.exec(running).catch(() => undefined)
    for (const nap of [job, running, background]) await proc.untilRuns(nap)
    proc.kill(supervisor)
    await call
    const isNew = async () => (await supervisorOf(sandbox)) !== supervisor || undefined
    await until(isNew, () => 'the session did not start again')
    expect([job, running, background].filter((nap) => proc.runs(nap))).toEqual([])
  }),
)

/** The supervisor of a session that works. A command that it takes down with it is given again. */
async function supervisorOf(session: Session | Sandbox): Promise<number> {
  const supervisor = () => session.exec('echo $PPID').catch(() => undefined)
  return Number((await until(supervisor, () => 'the session does not work')).stdout)
}

const forksNothing = () => 'no process was forked'

/** What runs with the session number of a supervisor, without zombies. */
function ofSession(supervisor: number): string[] {
  const members = proc.listProcesses().filter(({ session, state }) => session === supervisor && state !== 'Z')
  return members.map(proc.show)
}

it('a shell ends with its supervisor, before the host does anything, also one that has replaced another', async () => {
  const program = `
    const sandbox = new Sandbox()
    const start = async () => {
      await sandbox.exec('kill -9 $$')
      const { stdout } = await sandbox.exec('echo $$ $PPID')
      sandbox.exec('while :; do :; done').catch(() => {})
      print('began ' + stdout.trim() + '.')
    }
    start()
  `
  for (const mode of modes) {
    const host = startHost(program, [], mode.env)
    await host.printed('.\n')
    const [shell = 0, supervisor = 0] = (/began (\d+) (\d+)/.exec(host.output()) ?? []).slice(1).map(Number)
    process.kill(host.pid, 'SIGSTOP')
    await proc.untilStopped(host.pid)
    proc.kill(supervisor)
    await holds(() => !proc.isAlive(shell))
    process.kill(host.pid, 'SIGKILL')
    await host.ended()
    await expectGone(host.tag)
  }
})

for (const mode of [...modes, ...plain]) {
  it(`a process whose start meets the death of the supervisor starts below the next, ${mode.name}`, () =>
    withSandboxIn(mode, async ({ sandbox, directory }) => {
      for (let round = 0; round < 20; round++) {
        const { stdout } = await sandbox.exec('echo $PPID')
        proc.kill(Number(stdout))
        const options = round % 2 === 0 ? {} : { env: { A: 'a' }, cwd: directory }
        const cat = await sandbox.startProcess(`echo >> ran-${round}; cat`, { input: 'kept', ...options })
        const end = await cat.waitForExit()
        const file = path.join(directory, `ran-${round}`)
        const ran = existsSync(file) ? readFileSync(file, 'utf8') : ''
        // Its supervisor may have died just before or after the command began.
        if (end.reason === null) expect(ran.length).toBeLessThan(2)
        else expect([end.exitCode, (await cat.getLogs()).stdout, ran]).toEqual([0, 'kept', '\n'])
      }
    }))
}

for (const mode of modes) {
  it(`a process whose start meets the death of the shell starts in the next, ${mode.name}`, () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      for (let round = 0; round < 40; round++) {
        const { exitCode, stdout } = await sandbox.exec(`x=${round}; echo $$`)
        expect(exitCode).toBe(0)
        expect(stdout).toMatch(/^\d+\n$/)
        const starting = round % 2 === 0 ? sandbox.startProcess('echo $x') : undefined
        proc.kill(Number(stdout))
        const started = await (starting ?? sandbox.startProcess('echo $x'))
        expect((await started.waitForExit()).exitCode).toBe(0)
      }
    }))
}

// Its shell would continue it, but does not yet run.
it.each(modes)(
  'a supervisor that is stopped while its shell starts ends with its host, $name',
  async ({ env }) => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-shell-'))
    onTestFinished(() => rmSync(directory, { recursive: true }))
    const shell = path.join(directory, 'bash')
    writeFileSync(shell, '#!/bin/sh\nexec sleep 600\n', { mode: 0o755 })
    const program = `
    const sandbox = new Sandbox({ cwd: '/', shell: ${JSON.stringify(shell)} })
    sandbox.exec('true').catch(() => {})
    setInterval(() => {}, 1000)
  `
    const host = startHost(program, [], env)
    const supervisor = await until(
      () => {
        const below = proc.descendants(host.pid)
        return below.find(({ parent }) => below.some(({ pid }) => pid === parent))?.parent
      },
      () => `no shell: ${host.output()}`,
    )
    proc.signal(supervisor, 'SIGSTOP')
    await proc.untilStopped(supervisor)
    proc.kill(host.pid)
    await host.ended()
    await expectGone(host.tag)
  },
)
