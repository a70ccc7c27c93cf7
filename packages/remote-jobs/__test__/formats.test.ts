/** One format: the native supervisor, the script and an existing package read, and end, each other's jobs. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createRemoteJobs } from '@nacre/remote-jobs'
import { type Jobs, Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { closedGate, type JobPlace, UNKNOWN, untilPrinted, withJobs } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { all } from '../../../__test__/helpers/stream.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds } from '../../../__test__/helpers/until.js'
import { shells, standIn } from './places.js'

/** A test with both kinds of jobs on one directory. */
function onOneRoot(test: (place: JobPlace & { remote: Jobs }) => Promise<void>): Promise<void> {
  return withJobs(async (place) => {
    const [shell] = shells
    if (shell === undefined) throw new Error('no shell')
    const remote = createRemoteJobs(standIn(shell, place.tag), { jobsRoot: place.root, cwd: '/tmp' })
    await test({ ...place, remote })
    for (const name of proc.entries(place.root)) expect(name).not.toMatch(/^@(new|part|gone)/)
  })
}

it('a job of the native supervisor is read and ended from outside', () =>
  onOneRoot(async (place) => {
    const { jobs, remote } = place
    const done = await jobs.start({ command: 'echo one; kill -SEGV $$' })
    const status = await jobs.wait(done)
    expect(await remote.status(done)).toEqual(status)
    expect((await remote.read(done)).raw).toBe('one\n')
    expect(await remote.attach(done.jobId)).toEqual(done)
    const running = await jobs.start({ command: "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done" })
    await untilPrinted(place, running, 'up')
    expect(await remote.status(running)).toEqual({ ...UNKNOWN, state: 'running', alive: true })
    expect(await remote.list()).toEqual(await jobs.list())
    await remote.cancel(running)
    expect(await jobs.status(running)).toMatchObject({ exitCode: 7, reason: 'cancelled', alive: false })
    const stubborn = await jobs.start({ command: "trap '' TERM; echo up; while :; do sleep 0.1; done" })
    await untilPrinted(place, stubborn, 'up')
    await remote.cancel(stubborn, { graceMs: 100 })
    expect(await remote.status(stubborn)).toMatchObject({
      signal: 'SIGKILL',
      reason: 'cancelled',
      alive: false,
    })
    await remote.remove(stubborn)
    expect(await jobs.attach(stubborn.jobId)).toBe(null)
  }))

it('a job of the script is followed and ended by the native side', () =>
  onOneRoot(async (place) => {
    const { jobs, remote } = place
    const job = await remote.start({ command: 'echo one; sleep 0.3; echo two; exit 3' })
    expect(await jobs.attach(job.jobId)).toEqual(job)
    expect((await all(jobs.follow(job))).map(({ raw }) => raw).join('')).toBe('one\ntwo\n')
    const status = await jobs.wait(job)
    expect(status).toMatchObject({ exitCode: 3, reason: 'exit' })
    expect(await remote.status(job)).toEqual(status)
    const running = await remote.start({
      command: "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done",
    })
    await untilPrinted(place, running, 'up')
    await jobs.cancel(running)
    expect(await jobs.status(running)).toMatchObject({ exitCode: 7, reason: 'cancelled', alive: false })
    await expect(jobs.start({ command: 'true', jobId: job.jobId })).rejects.toMatchObject({
      code: 'JOB_ALREADY_EXISTS',
    })
    await expect(remote.start({ command: 'true', jobId: running.jobId })).rejects.toMatchObject({
      code: 'JOB_ALREADY_EXISTS',
    })
  }))

it('each side ends a job of the other with a shorter grace time than that of its start', () =>
  onOneRoot(async (place) => {
    const { sandbox, root, tag } = place
    const patient = { forceKillAfterDelay: 2_000_000 }
    const native = new Sandbox({ jobsRoot: root, cwd: '/tmp', env: { NACRE_TEST_TAG: tag }, ...patient })
    const remote = createRemoteJobs(standIn(shells[0] as (typeof shells)[0], tag), {
      jobsRoot: root,
      cwd: '/tmp',
      ...patient,
    })
    const command = `trap '' TERM; (setsid env -i sleep ${proc.uniqueSleep().slice(6)} &); echo up; while :; do sleep 0.1; done`
    for (const [starter, canceller] of [
      [native.jobs, remote],
      [remote, sandbox.jobs],
    ] as const) {
      const job = await starter.start({
        command: starter === remote ? command.replace('env -i ', '') : command,
      })
      await untilPrinted(place, job, 'up')
      await canceller.cancel(job, { graceMs: 50 })
      expect(await canceller.status(job)).toMatchObject({
        state: 'exited',
        signal: 'SIGKILL',
        reason: 'cancelled',
        alive: false,
      })
      await canceller.remove(job)
    }
    await native.destroy()
  }))

/** What an existing package leaves: a shell that leads its own group, whose output goes to the file and then its code. */
function startForeign(root: string, command: string): ChildProcess {
  const dir = path.join(root, 'theirs')
  mkdirSync(dir, { recursive: true })
  const [outputFile, exitFile] = [path.join(dir, 'output.log'), path.join(dir, 'exit')]
  const output = openSync(outputFile, 'a')
  const child = spawn('bash', ['-c', `(${command}); echo $? > '${exitFile}'`], {
    detached: true,
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  const createdAt = new Date().toISOString()
  const meta = { jobId: 'theirs', pgid: child.pid, outputFile, exitFile, dir, createdAt, version: 1 }
  writeFileSync(path.join(dir, 'meta.json'), JSON.stringify(meta, null, 2))
  return child
}

it('a job without fields of ours is read, and not cancelled', () =>
  onOneRoot(async (place) => {
    const { remote, root } = place
    const gate = closedGate(place)
    startForeign(root, `echo one; ${gate.passed}; exit 4`)
    expect(await remote.status('theirs')).toEqual({ ...UNKNOWN, state: 'running', alive: true })
    gate.open()
    expect(await remote.wait('theirs')).toMatchObject({ state: 'exited', exitCode: 4 })
    expect((await remote.read('theirs')).raw).toBe('one\n')
    await holds(async () => !(await remote.status('theirs')).alive)
    await remote.remove('theirs')
    const child = startForeign(root, proc.uniqueSleep())
    const error = await rejectionOf(remote.cancel('theirs', { graceMs: 0 }))
    expect(error).toMatchObject({ code: 'JOB_RUNNING' })
    expect(error.message).toMatch(/started by another package/)
    expect(await remote.status('theirs')).toMatchObject({ state: 'running', alive: true })
    process.kill(-(child.pid ?? 0), 'SIGKILL')
    await holds(async () => !(await remote.status('theirs')).alive)
    expect(await remote.status('theirs')).toMatchObject({ state: 'crashed', alive: false })
    await remote.cancel('theirs')
    await remote.remove('theirs')
  }))

it('a pid that was used again, or is of another boot, is neither running nor signalled', () =>
  onOneRoot(async ({ remote }) => {
    const stranger = spawn('sleep', ['600'], { detached: true })
    try {
      const job = await remote.start({ command: 'exit 0' })
      await remote.wait(job)
      const file = path.join(job.dir, 'meta.json')
      const meta = JSON.parse(readFileSync(file, 'utf8'))
      for (const name of ['exit', 'end.json']) writeFileSync(path.join(job.dir, name), '')
      const start = Number(proc.listProcesses().find(({ pid }) => pid === stranger.pid)?.started)
      const others = { pid: stranger.pid, pgid: stranger.pid, commandPid: stranger.pid }
      for (const [changes, reason] of [
        [{ startTime: start + 1 }, 'killed'],
        [{ startTime: start, bootId: 'another' }, 'reboot'],
        [{ startTime: undefined }, 'killed'],
      ] as const) {
        writeFileSync(file, JSON.stringify({ ...meta, ...others, ...changes }))
        expect(await remote.status(job)).toMatchObject({ state: 'crashed', reason, alive: false })
        await remote.cancel(job, { graceMs: 0 })
      }
      for (const damaged of ['', '{', '{"jobId":"other"}', '{"pgid":0}', '{"pgid":1}', '\0']) {
        writeFileSync(file, damaged)
        expect(await remote.attach(job.jobId)).toBe(null)
        expect(await remote.list()).toEqual([])
      }
      await remote.remove(job)
      expect(proc.isAlive(stranger.pid ?? 0)).toBe(true)
    } finally {
      stranger.kill('SIGKILL')
    }
  }))
