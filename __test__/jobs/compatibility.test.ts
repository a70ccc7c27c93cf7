/** Directories that an existing package has written: they are read by evidence, and their processes never signalled. */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { closedGate, UNKNOWN, untilGone, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

interface Foreign {
  child: ChildProcess
  dir: string
}

/** What such a package leaves: a shell that leads its own group, whose output goes to the file and then its code. */
function startForeign(root: string, jobId: string, command: string, createdAt = new Date()): Foreign {
  const dir = path.join(root, jobId)
  mkdirSync(dir, { recursive: true })
  const [outputFile, exitFile] = [path.join(dir, 'output.log'), path.join(dir, 'exit')]
  const output = openSync(outputFile, 'a')
  const child = spawn('bash', ['-c', `(${command}); echo $? > '${exitFile}'`], {
    detached: true,
    stdio: ['ignore', output, output],
  })
  closeSync(output)
  const meta = {
    jobId,
    pgid: child.pid,
    processName: 'foreign',
    outputFile,
    exitFile,
    dir,
    createdAt: createdAt.toISOString(),
    version: 1,
  }
  writeFileSync(path.join(dir, 'meta.json'), JSON.stringify(meta, null, 2))
  return { child, dir }
}

describe('a job without fields of ours', () => {
  it('is attached to, read, and ends with its code', () =>
    withJobs(async (place) => {
      const { jobs, root } = place
      const gate = closedGate(place)
      const { child, dir } = startForeign(root, 'theirs', `echo one; ${gate.passed}; echo two; exit 4`)
      expect(await jobs.attach('theirs')).toEqual({
        jobId: 'theirs',
        pgid: child.pid,
        processName: 'foreign',
        dir,
        outputFile: path.join(dir, 'output.log'),
        exitFile: path.join(dir, 'exit'),
        cgroup: null,
      })
      expect(await jobs.status('theirs')).toEqual({ ...UNKNOWN, state: 'running', alive: true })
      gate.open()
      expect(await jobs.wait('theirs')).toMatchObject({ state: 'exited', exitCode: 4 })
      expect((await jobs.read('theirs')).raw).toBe('one\ntwo\n')
      expect((await jobs.list()).map(({ jobId }) => jobId)).toEqual(['theirs'])
      // Their shell writes the code, and ends next.
      await untilGone(place, 'theirs')
      await jobs.remove('theirs')
    }))

  it('is not cancelled, and counts as crashed when its end is not recorded', () =>
    withJobs(async ({ jobs, root }) => {
      const { child } = startForeign(root, 'theirs', proc.uniqueSleep())
      const error = await rejectionOf(jobs.cancel('theirs', { graceMs: 0 }))
      expect(error).toMatchObject({ code: 'JOB_RUNNING' })
      expect(error.message).toMatch(/started by another package/)
      expect(await jobs.status('theirs')).toEqual({ ...UNKNOWN, state: 'running', alive: true })
      process.kill(-(child.pid ?? 0), 'SIGKILL')
      await until(
        () => child.signalCode ?? child.exitCode ?? undefined,
        () => 'the shell runs on',
      )
      // The rest of its group may take longer to die.
      const status = await until(
        async () => {
          const found = await jobs.status('theirs')
          return found.state === 'running' ? undefined : found
        },
        () => 'the group lives on',
      )
      expect(status).toEqual({ ...UNKNOWN, state: 'crashed', reason: 'killed', alive: false })
      await jobs.cancel('theirs')
      await jobs.remove('theirs')
    }))

  it('whose group is another’s by now is not running, and no process is signalled', () =>
    withJobs(async ({ jobs, root }) => {
      const { child, dir } = startForeign(root, 'theirs', 'exit 1')
      await until(
        () => child.exitCode ?? undefined,
        () => 'it runs on',
      )
      const stranger = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' })
      try {
        const longAgo = new Date(Date.now() - 60_000).toISOString()
        writeFileSync(path.join(dir, 'exit'), '')
        const meta = {
          jobId: 'theirs',
          pgid: stranger.pid,
          outputFile: '',
          exitFile: '',
          dir,
          createdAt: longAgo,
        }
        writeFileSync(path.join(dir, 'meta.json'), JSON.stringify(meta))
        expect(await jobs.status('theirs')).toMatchObject({ state: 'crashed', alive: false })
        await jobs.cancel('theirs', { graceMs: 0 })
        expect(proc.isAlive(stranger.pid ?? 0)).toBe(true)
        for (const pgid of [0, 1, -1, '7', null]) {
          writeFileSync(path.join(dir, 'meta.json'), JSON.stringify({ ...meta, pgid }))
          expect(await jobs.attach('theirs')).toBe(null)
        }
      } finally {
        stranger.kill('SIGKILL')
      }
    }))
})

it('a reader that knows only the shared fields can follow a job of ours', () =>
  withJobs(async ({ jobs }) => {
    const job = await jobs.start({ command: 'echo up; sleep 600' })
    const meta = JSON.parse(readFileSync(path.join(job.dir, 'meta.json'), 'utf8'))
    expect(meta).toMatchObject({
      jobId: job.jobId,
      pgid: job.pgid,
      outputFile: job.outputFile,
      exitFile: job.exitFile,
      dir: job.dir,
      version: 1,
    })
    expect(new Date(meta.createdAt).toISOString()).toBe(meta.createdAt)
    // kill(-pgid, 0): a process of the group is there, and takes a SIGTERM for a cancel.
    expect(process.kill(-meta.pgid, 0)).toBe(true)
    process.kill(-meta.pgid, 'SIGTERM')
    await jobs.wait(job)
    expect(Number(readFileSync(meta.exitFile, 'utf8').trim())).toBe(143)
  }))
