/** Cancel and timeout of remote jobs, and what their commands leave behind. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { expectNoProcess, timedOut, untilStopped } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { inEveryShell, isMain, itRemotely, untilPrintedBy } from './places.js'

inEveryShell('the end of a remote job', (shell) => {
  itRemotely(
    shell,
    'cancel kills what ignores SIGTERM, and what has left its session',
    async ({ jobs, tag }) => {
      const nap = proc.uniqueSleep()
      const job = await jobs.start({
        command: `trap '' TERM; setsid ${nap} & (setsid setsid ${nap} &); echo up; while :; do sleep 0.2; done`,
      })
      await untilPrintedBy(jobs, job, 'up')
      const begun = performance.now()
      await jobs.cancel(job, { graceMs: 300 })
      expect(performance.now() - begun).toBeGreaterThan(290)
      await expectNoProcess(tag)
      expect(proc.runs(nap)).toBe(false)
      const status = await jobs.status(job)
      expect(status).toMatchObject({ state: 'exited', reason: 'cancelled', alive: false })
      expect(status.signal).toBe('SIGKILL')
      await jobs.cancel(job)
    },
  )

  itRemotely(shell, 'after a cancel or a timeout the command’s own code is kept', async ({ jobs }) => {
    const command = "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done"
    const cancelled = await jobs.start({ command })
    await untilPrintedBy(jobs, cancelled, 'up')
    await jobs.cancel(cancelled)
    expect(await jobs.status(cancelled)).toMatchObject({ exitCode: 7, reason: 'cancelled' })
    const late = await timedOut(jobs, { command }, 0.5)
    expect(late.status).toMatchObject({ exitCode: 7, reason: 'timeout' })
  })

  itRemotely(shell, 'cancel finds a process whose name has a newline', async ({ jobs, root }) => {
    const pid = path.join(path.dirname(root), 'pid')
    const loop = 'printf "a\\nb" >/proc/$$/comm; echo $$ >"$0"; while :; do sleep 0.1; done'
    const job = await jobs.start({
      command: `env -i PATH="$PATH" sh -c '${loop}' '${pid.replaceAll("'", "'\\''")}' & wait`,
    })
    const process = Number(
      await until(
        () => (existsSync(pid) && readFileSync(pid, 'utf8').trim()) || undefined,
        () => 'it does not start',
      ),
    )
    await jobs.cancel(job, { graceMs: 100 })
    expect(proc.isAlive(process)).toBe(false)
  })

  itRemotely(shell, 'cancel wakes a stopped process', async ({ jobs }) => {
    const job = await jobs.start({
      command: "trap 'echo bye; exit 5' TERM; echo up; kill -STOP $$; sleep 600",
    })
    await untilPrintedBy(jobs, job, 'up')
    await untilStopped(job)
    await jobs.cancel(job)
    expect(await jobs.status(job)).toMatchObject({ exitCode: 5, reason: 'cancelled' })
  })

  itRemotely(shell, 'a timeout ends a command that ignores SIGTERM', async ({ again, tag }) => {
    const jobs = again({ forceKillAfterDelay: 100 })
    const nap = proc.uniqueSleep()
    const job = await jobs.start({
      command: `trap '' TERM; ${nap} & while :; do :; done`,
      timeoutSeconds: 0.3,
    })
    expect(await jobs.wait(job)).toMatchObject({ state: 'exited', reason: 'timeout' })
    await expectNoProcess(tag, 10_000)
    expect(proc.runs(nap)).toBe(false)
  })

  itRemotely(shell, 'SIGTERM to the group in meta.json is a cancel', async ({ jobs }) => {
    const job = await jobs.start({ command: 'echo up; sleep 600' })
    await untilPrintedBy(jobs, job, 'up')
    process.kill(-job.pgid, 'SIGTERM')
    expect(await jobs.wait(job)).toMatchObject({ reason: 'cancelled' })
  })

  itRemotely(
    shell,
    'a hail of SIGTERM, which also hits what the supervisor calls, takes no record',
    async (place) => {
      const { jobs } = place
      const nap = proc.uniqueSleep()
      const job = await jobs.start({
        command: `trap 'exit 7' TERM; ${nap} & echo up; while :; do sleep 0.02; done`,
      })
      await untilPrintedBy(jobs, job, 'up')
      await until(
        () => (proc.isAlive(job.pgid) && proc.signal(-job.pgid, 'SIGTERM') ? undefined : true),
        () => 'it does not end',
        15_000,
      )
      expect(await jobs.status(job)).toMatchObject({ exitCode: 7, reason: 'cancelled', alive: false })
      expect(proc.runs(nap)).toBe(false)
    },
  )

  itRemotely(shell, 'a job can be removed immediately after a wait', async ({ jobs }) => {
    // The supervisor of an old job looks only twice a second.
    const old = await jobs.start({ command: isMain(shell) ? 'sleep 4.5' : 'true' })
    for (let round = 0; round < 5; round++) {
      const job = await jobs.start({ command: `exit ${round}` })
      expect(await jobs.wait(job)).toMatchObject({ exitCode: round })
      await jobs.remove(job)
    }
    await jobs.wait(old)
    await jobs.remove(old)
    expect(await jobs.list()).toEqual([])
  })

  itRemotely(
    shell,
    'what a command leaves behind keeps the job alive, until it ends',
    async ({ jobs, tag }) => {
      const nap = proc.uniqueSleep()
      const kept = await jobs.start({ command: `${nap} & exit 9` })
      const status = await jobs.wait(kept)
      expect(status).toMatchObject({ state: 'exited', exitCode: 9, alive: true })
      await expect(jobs.remove(kept)).rejects.toMatchObject({ code: 'JOB_RUNNING' })
      await jobs.cancel(kept)
      expect(proc.runs(nap)).toBe(false)
      expect(await jobs.status(kept)).toEqual({ ...status, alive: false })
      const short = await jobs.start({ command: '(sleep 0.3; echo late) & echo now' })
      await jobs.wait(short)
      await untilPrintedBy(jobs, short, 'now\nlate\n')
      await holds(async () => !(await jobs.status(short)).alive)
      await expectNoProcess(tag)
    },
  )
})
