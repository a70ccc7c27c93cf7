/** A full disk: a small file system in memory, which only root can mount. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { closedGate, withJobs } from '../helpers/jobs.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const isRoot = process.getuid?.() === 0

/** Runs a test with a root of jobs of 1 MiB. */
async function withSmallDisk(test: (root: string) => Promise<void>): Promise<void> {
  const root = temporary('nacre-jobs-disk-')
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=700', 'tmpfs', root])
  try {
    await test(root)
  } finally {
    execFileSync('umount', ['-l', root])
  }
}

/** Takes all the room there is. */
function fill(root: string): string {
  const file = path.join(root, 'ballast')
  for (const size of [65536, 4096]) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(size), { flag: 'a' })
    } catch (error) {
      expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC')
    }
  }
  return file
}

if (isRoot) {
  it('a job that fills the disk goes on, its code survives, and the loss of output is reported', () =>
    withSmallDisk((root) =>
      withJobs(
        async ({ jobs }) => {
          const job = await jobs.start({ command: 'head -c 3000000 /dev/zero; echo more; exit 42' })
          const status = await jobs.wait(job)
          expect(status).toMatchObject({ state: 'exited', exitCode: 42, reason: 'exit', outputLost: true })
          expect(readFileSync(job.exitFile, 'utf8')).toBe('42\n')
          const { size } = statSync(job.outputFile)
          expect(size).toBeGreaterThan(500_000)
          const { bytesFetched } = await jobs.read(job, 0, { maxBytes: 4_000_000, encoding: 'buffer' })
          expect(bytesFetched).toBe(size)
        },
        { jobsRoot: root },
      ),
    ))

  it('keeps the exit code on a disk that another program has filled by the end', () =>
    withSmallDisk((root) =>
      withJobs(
        async (place) => {
          const { jobs } = place
          const gate = closedGate(place)
          const job = await jobs.start({ command: `${gate.passed}; kill -KILL $$` })
          const ballast = fill(root)
          gate.open()
          expect(await jobs.wait(job)).toMatchObject({ signal: 'SIGKILL', outputLost: true })
          const error = await rejectionOf(jobs.start({ command: 'true' }))
          expect(error).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
          expect(error.message).toContain('No space left')
          expect(readdirSync(root).sort()).toEqual([job.jobId, 'ballast'].sort())
          rmSync(ballast)
          const next = await jobs.start({ command: 'echo fits' })
          const status = await jobs.wait(next)
          expect(status).toMatchObject({ exitCode: 0 })
          expect(status.outputLost).toBe(undefined)
        },
        { jobsRoot: root },
      ),
    ))

  it('a cancel needs no room', () =>
    withSmallDisk((root) =>
      withJobs(
        async ({ jobs }) => {
          const job = await jobs.start({ command: 'sleep 600' })
          const ballast = fill(root)
          await jobs.cancel(job)
          expect(await jobs.status(job)).toMatchObject({ signal: 'SIGTERM', reason: 'cancelled' })
          rmSync(ballast)
        },
        { jobsRoot: root },
      ),
    ))
} else {
  it('is not tested: only root can mount a small file system', () => {
    expect(isRoot).toBe(false)
  })
}
