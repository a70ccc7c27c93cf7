/** Cancel and timeout: the ladder, which processes belong to the job, and the status afterwards. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import {
  closedGate,
  expectNoProcess,
  itWithJobs,
  timedOut,
  untilPrinted,
  untilStopped,
  withJobs,
} from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { holds } from '../helpers/until.js'

itWithJobs(
  'cancel ends children that called setsid or double-forked, and removes the control group',
  async (place) => {
    const { jobs, tag } = place
    const nap = proc.uniqueSleep()
    const job = await jobs.start({
      command: `setsid ${nap} & (setsid setsid ${nap} &); (nohup ${nap} >/dev/null 2>&1 &); env -i ${nap} & echo up; wait`,
    })
    await untilPrinted(place, job, 'up')
    await proc.untilRuns(nap, 4)
    await jobs.cancel(job)
    expect(proc.runs(nap)).toBe(false)
    // The kernel notifies the guard above the supervisor of its end, and the guard exits next.
    await expectNoProcess(tag)
    expect(job.cgroup === null || !existsSync(job.cgroup)).toBe(true)
    expect(await jobs.status(job)).toMatchObject({
      state: 'exited',
      exitCode: null,
      signal: 'SIGTERM',
      reason: 'cancelled',
      alive: false,
    })
    await jobs.cancel(job)
  },
)

itWithJobs('cancel kills processes that ignore SIGTERM after the grace time', async (place) => {
  const { jobs } = place
  const job = await jobs.start({
    command: `trap '' TERM INT HUP; echo up; while :; do ${proc.uniqueSleep()}; done`,
  })
  await untilPrinted(place, job, 'up')
  const begun = performance.now()
  await jobs.cancel(job, { graceMs: 200 })
  expect(performance.now() - begun).toBeGreaterThan(190)
  expect(await jobs.status(job)).toMatchObject({ signal: 'SIGKILL', reason: 'cancelled' })
})

itWithJobs('cancel wakes a stopped process', async (place) => {
  const { jobs } = place
  const job = await jobs.start({ command: `trap 'echo bye; exit 5' TERM; echo up; kill -STOP $$; sleep 60` })
  await untilPrinted(place, job, 'up')
  await untilStopped(job)
  await jobs.cancel(job)
  expect(await jobs.status(job)).toMatchObject({ exitCode: 5, reason: 'cancelled' })
  expect((await jobs.read(job)).raw).toBe('up\nbye\n')
})

itWithJobs('after a cancel or a timeout the command’s own code is kept', async (place) => {
  const { jobs } = place
  const command = `trap 'exit 7' TERM; echo up; ${proc.uniqueSleep()} & wait`
  const cancelled = await jobs.start({ command })
  await untilPrinted(place, cancelled, 'up')
  await jobs.cancel(cancelled)
  expect(await jobs.status(cancelled)).toMatchObject({ exitCode: 7, reason: 'cancelled' })
  const late = await timedOut(jobs, { command }, 0.3)
  expect(late.status).toMatchObject({ exitCode: 7, reason: 'timeout' })
})

it('a timeout ends a command that ignores SIGTERM, and its descendants', () =>
  withJobs(
    async ({ jobs, tag }) => {
      const command = `trap '' TERM; setsid ${proc.uniqueSleep()} & echo up; while :; do :; done`
      const { job, status } = await timedOut(jobs, { command }, 0.2)
      expect(status).toMatchObject({ state: 'exited', signal: 'SIGKILL', reason: 'timeout' })
      await jobs.cancel(job)
      await expectNoProcess(tag)
    },
    { forceKillAfterDelay: 100 },
  ))

it('a job that ends in time is not touched by its timeout', () =>
  withJobs(async ({ jobs }) => {
    const job = await jobs.start({ command: 'exit 0', timeoutSeconds: 60 })
    expect(await jobs.wait(job)).toMatchObject({ exitCode: 0, reason: 'exit' })
  }))

it('SIGTERM to the group in meta.json, by any program, is a cancel', () =>
  withJobs(async (place) => {
    const { jobs } = place
    const job = await jobs.start({ command: `setsid ${proc.uniqueSleep()} & echo up; wait` })
    await untilPrinted(place, job, 'up')
    spawnSync('bash', ['-c', `kill -TERM -- -${job.pgid}`])
    expect(await jobs.wait(job)).toMatchObject({ reason: 'cancelled', signal: 'SIGTERM' })
  }))

it('a second cancel with less grace hastens the first', () =>
  withJobs(async (place) => {
    const { jobs } = place
    const job = await jobs.start({ command: `trap '' TERM; echo up; while :; do sleep 1; done` })
    await untilPrinted(place, job, 'up')
    const first = jobs.cancel(job, { graceMs: 600_000 })
    await jobs.cancel(job, { graceMs: 50 })
    await first
  }))

it('a cancel ends processes that a command left behind, and the record stays', () =>
  withJobs(async ({ jobs }) => {
    const nap = proc.uniqueSleep()
    const job = await jobs.start({ command: `${nap} & exit 9` })
    const status = await jobs.wait(job)
    expect(status).toMatchObject({ exitCode: 9, alive: true })
    await proc.untilRuns(nap)
    await jobs.cancel(job)
    expect(proc.runs(nap)).toBe(false)
    expect(await jobs.status(job)).toEqual({ ...status, alive: false })
  }))

/** What a command without isolation can do to the supervisor above it, whose pid is `$PPID`. */
const ATTACKS: Record<string, string> = {
  'takes its descriptors': 'prlimit --pid $PPID --nofile=3:3',
  'takes every descriptor': 'prlimit --pid $PPID --nofile=0:0',
  'forbids it to write': 'prlimit --pid $PPID --fsize=0:0',
  'stops it and its guard': "kill -STOP $(awk '{ print $4 }' /proc/$PPID/stat) $PPID",
}

for (const [name, attack] of Object.entries(ATTACKS)) {
  itWithJobs(`cancel ends a job that ${name}, with its detached children`, async (place) => {
    const { jobs, tag } = place
    const nap = proc.uniqueSleep()
    const job = await jobs.start({ command: `trap '' TERM; setsid ${nap} & echo up; ${attack}; ${nap}` })
    await untilPrinted(place, job, 'up')
    await proc.untilRuns(nap, 2)
    await jobs.cancel(job, { graceMs: 100 })
    expect(proc.runs(nap)).toBe(false)
    await expectNoProcess(tag)
    expect(await jobs.status(job)).toMatchObject({ alive: false, signal: 'SIGKILL', reason: 'cancelled' })
    await jobs.remove(job)
  })
}

itWithJobs('a supervisor that may not write files records the exit code', async ({ jobs }) => {
  const job = await jobs.start({ command: 'prlimit --pid $PPID --fsize=0:0; exit 7' })
  expect(await jobs.wait(job)).toMatchObject({ state: 'exited', exitCode: 7, reason: 'exit' })
})

itWithJobs('a real-time signal ends a job like every other signal', async ({ jobs }) => {
  const job = await jobs.start({ command: 'kill -40 $$' })
  const status = await jobs.wait(job)
  expect(status).toMatchObject({ state: 'exited', exitCode: null, reason: 'signal' })
  expect(status.signal).not.toBeNull()
})

for (const kind of ['cancel', 'timeout'] as const) {
  itWithJobs(`a command that has ended by itself before a ${kind} keeps its own end`, async (place) => {
    const { jobs } = place
    const gate = closedGate(place)
    const timeout = kind === 'timeout' ? 3000 : 0
    const job = await jobs.start({ command: `echo up; ${gate.passed}; exit 3`, timeout })
    const begun = performance.now()
    await untilPrinted(place, job, 'up')
    const { commandPid } = JSON.parse(readFileSync(path.join(job.dir, 'meta.json'), 'utf8'))
    process.kill(job.pgid, 'SIGSTOP')
    await proc.untilStopped(job.pgid)
    gate.open()
    await holds(() => !proc.isAlive(commandPid))
    await holds(() => performance.now() > begun + timeout)
    if (kind === 'cancel') await jobs.cancel(job)
    else process.kill(job.pgid, 'SIGCONT')
    expect(await jobs.wait(job)).toMatchObject({ exitCode: 3, reason: 'exit' })
  })
}

it('a command that ends at the moment of a cancel or a timeout is not said to have been ended', () =>
  withJobs(async (place) => {
    const { jobs } = place
    for (let round = 0; round < 100; round++) {
      const gate = closedGate(place)
      const timeout = round % 2 === 0 ? 0 : 40
      const job = await jobs.start({ command: `${gate.passed}; exit 3`, timeout })
      gate.open()
      if (timeout === 0) await jobs.cancel(job)
      const status = await jobs.wait(job)
      // bash without a trap dies by SIGTERM, so it has this code only if it has ended by itself.
      if (status.exitCode === 3) expect(status.reason).toBe('exit')
      else expect(status.signal).toBe('SIGTERM')
      await jobs.cancel(job)
      await jobs.remove(job)
    }
  }))
