/** Deaths by SIGKILL, of whatever takes part, at whatever moment; and numbers that are used again. */
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import {
  closedGate,
  expectNoProcess,
  itWithJobs,
  QUICK,
  UNKNOWN,
  untilGone,
  untilPrinted,
  withJobs,
} from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { holds, until } from '../helpers/until.js'

const isRoot = process.getuid?.() === 0

/** A tree of every kind; prints "up" when all of it runs. */
function tree(nap: string): string {
  return `setsid ${nap} & (setsid setsid ${nap} &); (nohup ${nap} >/dev/null 2>&1 &); env -i setsid ${nap} & sleep 0.05; echo up; wait`
}

itWithJobs(
  'SIGKILL of the supervisor takes the workload along, the state is crashed, the output is kept',
  async (place) => {
    const { jobs, tag } = place
    const nap = proc.uniqueSleep()
    const job = await jobs.start({ command: tree(nap) })
    await untilPrinted(place, job, 'up')
    proc.kill(job.pgid)
    expect(await jobs.wait(job)).toEqual({ ...UNKNOWN, state: 'crashed', reason: 'killed', alive: false })
    await expectNoProcess(tag)
    await until(
      () => !proc.runs(nap) || undefined,
      () => `${nap} runs on`,
    )
    expect((await jobs.read(job)).raw).toBe('up\n')
    expect(job.cgroup === null || !existsSync(job.cgroup)).toBe(true)
    await jobs.cancel(job)
    expect(await jobs.attach(job.jobId)).toEqual(job)
  },
)

itWithJobs(
  'SIGKILL of the shell is a signal death, and what it had started goes on until a cancel',
  async (place) => {
    const { jobs } = place
    const nap = proc.uniqueSleep()
    const job = await jobs.start({ command: `${nap} & echo up; kill -9 $$` })
    expect(await jobs.wait(job)).toMatchObject({
      exitCode: null,
      signal: 'SIGKILL',
      reason: 'signal',
      alive: true,
    })
    await jobs.cancel(job)
    expect(proc.runs(nap)).toBe(false)
  },
)

itWithJobs('SIGKILL of the guard alone changes nothing', async (place) => {
  const { jobs } = place
  const job = await jobs.start({ command: 'echo up; read -t 0.2 < <(sleep 60); exit 6' })
  await untilPrinted(place, job, 'up')
  proc.kill(guardOf(job.pgid))
  expect(await jobs.wait(job)).toMatchObject({ exitCode: 6 })
  await jobs.cancel(job)
})

it('a cancel removes the rest of the group when guard and supervisor were both killed', () =>
  withJobs(async (place) => {
    const { jobs, tag } = place
    const job = await jobs.start({ command: tree(proc.uniqueSleep()) })
    await untilPrinted(place, job, 'up')
    if (job.cgroup === null) return
    proc.kill(guardOf(job.pgid))
    proc.kill(job.pgid)
    expect((await jobs.wait(job)).state).toBe('crashed')
    await jobs.cancel(job)
    await expectNoProcess(tag)
    expect(existsSync(job.cgroup)).toBe(false)
  }))

it('SIGKILL of the host leaves its jobs running, and another host reads them to their end', async () => {
  await withJobs(async ({ jobs, root }) => {
    const host = startHost(`
      const { jobs } = new Sandbox({ jobsRoot: ${JSON.stringify(root)} })
      jobs.start({ command: 'echo one; sleep 0.5; echo two; exit 3', jobId: 'durable' }).then(() => {
        print('started'); setInterval(() => {}, 1000) })
    `)
    await host.printed('started')
    proc.kill(host.pid)
    expect(await host.ended()).toBe('SIGKILL')
    expect((await jobs.attach('durable'))?.jobId).toBe('durable')
    expect(await jobs.wait('durable')).toMatchObject({ exitCode: 3 })
    expect((await jobs.read('durable')).raw).toBe('one\ntwo\n')
  })
})

it('a host leaves no zombie of its jobs, and neither does one that is a pid namespace’s init', async () => {
  const program = `
    const fs = require('fs')
    const root = fs.mkdtempSync(${JSON.stringify(`${QUICK}/nacre-jobs-init-`)})
    const { jobs } = new Sandbox({ jobsRoot: root, stateDir: root })
    const zombies = () => fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).filter((name) => {
      try { const stat = fs.readFileSync('/proc/' + name + '/stat', 'latin1'); const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        return state === 'Z' && Number(parent) === process.pid } catch { return false } })
    const run = async () => {
      for (let index = 0; index < 20; index++) await jobs.wait(await jobs.start({ command: 'true' }))
      for (let tries = 0; zombies().length > 0 && tries < 400; tries++) await new Promise((resolve) => setTimeout(resolve, 5))
      print('zombies ' + zombies().length); fs.rmSync(root, { recursive: true }); process.exit(0)
    }
    run()
  `
  for (const wrapper of isRoot ? [[], ['unshare', '-pf', '--mount-proc']] : [[]]) {
    const host = startHost(program, wrapper)
    const end = await host.ended(60_000)
    expect(host.output()).toContain('zombies 0')
    expect(end).toBe(0)
    await expectGone(host.tag)
  }
}, 120_000)

function guardOf(supervisor: number): number {
  return proc.listProcesses().find(({ pid }) => pid === supervisor)?.parent ?? 0
}

describe('a pid that is used again', () => {
  it('is neither running nor signalled, when it really is', () =>
    withJobs(async (place) => {
      const { jobs } = place
      const job = await jobs.start({ command: 'sleep 600' })
      proc.kill(job.pgid)
      await untilGone(place, job)
      // The kernel's start times are in hundredths of a second, and no number comes again so soon by itself.
      const { startTime } = JSON.parse(readFileSync(path.join(job.dir, 'meta.json'), 'utf8'))
      const ticks = () => Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 100
      await holds(() => ticks() > startTime + 1)
      const stranger = isRoot ? await takeNumber(job.pgid) : undefined
      if (stranger === undefined) {
        console.warn(
          'not root, or the number could not be had: pid reuse is tested with a changed start time only',
        )
        return
      }
      try {
        expect(await jobs.status(job)).toMatchObject({ state: 'crashed', alive: false })
        await jobs.cancel(job, { graceMs: 0 })
        expect(stranger.exitCode).toBe(null)
        expect(stranger.signalCode).toBe(null)
        expect(proc.isAlive(job.pgid)).toBe(true)
      } finally {
        stranger.kill('SIGKILL')
      }
    }))

  it('or belongs to another boot, is not the job', () =>
    withJobs(async ({ jobs }) => {
      const stranger = spawn('sleep', ['600'])
      try {
        const job = await jobs.start({ command: 'exit 0' })
        await jobs.wait(job)
        // Its record comes before its end, and until then it holds the lock that marks the job as running.
        await holds(() => !proc.isAlive(job.pgid))
        const file = path.join(job.dir, 'meta.json')
        const meta = JSON.parse(readFileSync(file, 'utf8'))
        for (const name of ['exit', 'end.json']) writeFileSync(path.join(job.dir, name), '')
        const start = Number(startTicks(stranger.pid ?? 0))
        for (const [changes, reason] of [
          [{ startTime: start + 1 }, 'killed'],
          [{ startTime: start, bootId: 'another' }, 'reboot'],
        ] as const) {
          writeFileSync(file, JSON.stringify({ ...meta, pid: stranger.pid, pgid: stranger.pid, ...changes }))
          expect(await jobs.status(job)).toMatchObject({ state: 'crashed', reason, alive: false })
          await jobs.cancel(job, { graceMs: 0 })
        }
        expect(stranger.signalCode).toBe(null)
        expect(proc.isAlive(stranger.pid ?? 0)).toBe(true)
      } finally {
        stranger.kill('SIGKILL')
      }
    }))
})

/** Starts a process with exactly this pid, through /proc/sys/kernel/ns_last_pid; others fork too, so it is tried often. */
async function takeNumber(pid: number) {
  for (let attempt = 0; attempt < 300; attempt++) {
    writeFileSync('/proc/sys/kernel/ns_last_pid', String(pid - 1))
    const child = spawn('sleep', ['600'])
    if (child.pid === pid) return child
    child.kill('SIGKILL')
    await new Promise((resolve) => child.on('close', resolve))
  }
  return undefined
}

function startTicks(pid: number): string {
  return proc.listProcesses().find((entry) => entry.pid === pid)?.started ?? ''
}

describe('a damaged meta.json', () => {
  it('cannot be attached to; state and output are still correct', () =>
    withJobs(async (place) => {
      const { jobs } = place
      const job = await jobs.start({ command: 'echo up; sleep 600' })
      await untilPrinted(place, job, 'up')
      const file = path.join(job.dir, 'meta.json')
      const whole = readFileSync(file)
      for (const damaged of ['', '{', whole.subarray(0, 100), 'null', '[]', '{"jobId":"other"}', '\0\0\0']) {
        writeFileSync(file, damaged)
        expect(await jobs.attach(job.jobId)).toBe(null)
        expect(await jobs.list()).toEqual([])
        expect(await jobs.status(job)).toMatchObject({ state: 'running', alive: true })
        expect((await jobs.read(job)).raw).toBe('up\n')
        await expect(jobs.cancel(job)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
        await expect(jobs.remove(job)).rejects.toMatchObject({ code: 'JOB_RUNNING' })
      }
      process.kill(job.pgid, 'SIGTERM')
      expect(await jobs.wait(job)).toMatchObject({ state: 'exited', signal: 'SIGTERM' })
      await jobs.remove(job)
      expect(existsSync(job.dir)).toBe(false)
    }))
})

it('a clock that was set back does not matter to a job that it makes younger than now', () =>
  withJobs(async (place) => {
    const { jobs } = place
    const gate = closedGate(place)
    const job = await jobs.start({ command: `echo up; ${gate.passed}; exit 2`, timeoutSeconds: 60 })
    await untilPrinted(place, job, 'up')
    await asIfStartedTomorrow(job.dir)
    expect(await jobs.status(job)).toMatchObject({ state: 'running', alive: true })
    gate.open()
    expect(await jobs.wait(job)).toMatchObject({ exitCode: 2, reason: 'exit' })
    await asIfStartedTomorrow(job.dir)
    expect(await jobs.status(job)).toMatchObject({ exitCode: 2 })
  }))

async function asIfStartedTomorrow(directory: string): Promise<void> {
  const tomorrow = new Date(Date.now() + 86_400_000)
  const file = path.join(directory, 'meta.json')
  const meta = JSON.parse(readFileSync(file, 'utf8'))
  writeFileSync(file, JSON.stringify({ ...meta, createdAt: tomorrow.toISOString() }))
  for (const name of readdirSync(directory)) utimesSync(path.join(directory, name), tomorrow, tomorrow)
}
