/** A sandbox with its own jobs root, and the checks after a test of jobs: nothing of any job may be left. */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type JobStartOptions, type JobStatus, type Jobs, Sandbox, type SandboxOptions } from 'nacre'
import { expect, it } from 'vitest'
import { enter, type Mode, modes } from './modes.js'
import * as proc from './proc.js'
import { until } from './until.js'

/** The part of a job's status that is fixed until its end is known. */
export const UNKNOWN = { exitCode: null, signal: null, reason: null, endTime: null, duration: null }

export interface JobPlace {
  sandbox: Sandbox
  jobs: Sandbox['jobs']
  /** The directory of all jobs. */
  root: string
  /** A directory for other files of the test. */
  base: string
  /** Set in the environment of every job. */
  tag: string
}

/**
 * The location of job directories: in memory, if possible. Each start and end of a job waits for the disk's journal, which
 * other programs may keep busy for seconds.
 */
export const QUICK = inMemory('/dev/shm') ?? os.tmpdir()
/** The location for tests that need more space, or that are about the disk. */
export const ON_DISK = os.tmpdir()

function inMemory(directory: string): string | undefined {
  try {
    accessSync(directory, constants.W_OK)
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize > 32 * 1024 ** 2 ? directory : undefined
  } catch {
    return undefined
  }
}

let places = 0

/** Runs a test. Afterwards every job is cancelled and removed, and no process, group or descriptor may be left. */
export async function withJobs(
  test: (place: JobPlace) => Promise<void>,
  options: SandboxOptions = {},
  parent = QUICK,
): Promise<void> {
  places++
  const tag = `nacre-jobs-${process.pid}-${places}`
  const base = mkdtempSync(path.join(parent, `${tag}-`))
  const root = options.jobsRoot === undefined ? path.join(base, 'jobs') : String(options.jobsRoot)
  const sandbox = new Sandbox({
    cwd: '/tmp',
    jobsRoot: root,
    stateDir: path.join(base, 'state'),
    ...options,
    env: { NACRE_TEST_TAG: tag, ...options.env },
  })
  try {
    await sandbox.jobs.list()
    // From the first use on, Bun keeps a separate event loop for this.
    spawnSync('true')
    const files = proc.openFiles().length
    await test({ sandbox, jobs: sandbox.jobs, root, base, tag })
    for (const job of await sandbox.jobs.list()) {
      await sandbox.jobs.cancel(job, { graceMs: 100 })
      await sandbox.jobs.remove(job)
    }
    await sandbox.destroy()
    await expectNoProcess(tag)
    await until(
      () => proc.openFiles().length <= files || undefined,
      () => `descriptors: ${proc.openFiles().join(', ')}`,
    )
    expect(proc.entries(root).filter((name) => name.startsWith('~'))).toEqual([])
    expect(groupsOfJobs(root)).toEqual([])
  } finally {
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    await sandbox.destroy()
    rmSync(base, { recursive: true, force: true })
  }
}

/** Declares a test that gets a place, once for each mode that matters for jobs. */
export function itWithJobs(
  name: string,
  test: (place: JobPlace, mode: Mode) => Promise<void>,
  timeout?: number,
): void {
  for (const mode of modes) {
    it(
      `${name}, ${mode.name}`,
      async () => {
        const leave = enter(mode)
        try {
          await withJobs(async (place) => {
            leave()
            await test(place, mode)
          })
        } finally {
          leave()
        }
      },
      timeout,
    )
  }
}

/** Waits until no process carries the tag. */
export async function expectNoProcess(tag: string, limit = 10_000): Promise<void> {
  await until(
    () => proc.tagged(tag).length === 0 || undefined,
    () => `left behind: ${proc.tagged(tag).map(proc.show).join('\n')}`,
    limit,
  )
}

/** Control groups of jobs in a root. */
function groupsOfJobs(root: string): string[] {
  return groupsOf(new Set(proc.entries(root)))
}

/** Control groups next to this process's that belong to jobs with these ids: other programs have jobs too. */
export function groupsOf(ids: Set<string>): string[] {
  const directory = proc.groupOf('self')
  if (directory === undefined) return []
  return proc.entries(directory).filter((name) => ids.has(/^nacre-job-\d+-(.*)$/.exec(name)?.[1] ?? ''))
}

/** Waits until a job is over and all its processes have exited. */
export async function untilGone({ jobs }: JobPlace, job: string | { jobId: string }): Promise<JobStatus> {
  const id = typeof job === 'string' ? job : job.jobId
  return until(
    async () => {
      const status = await jobs.status(id)
      return status.state !== 'running' && !status.alive ? status : undefined
    },
    () => `job ${id} goes on`,
  )
}

/** Waits until a job has printed this text, and returns all its output. */
export async function untilPrinted(
  { jobs }: JobPlace,
  job: string | { jobId: string },
  text: string,
): Promise<string> {
  const id = typeof job === 'string' ? job : job.jobId
  return until(
    async () => {
      const { raw } = await jobs.read(id)
      return raw.includes(text) ? raw : undefined
    },
    () => `job ${id} did not print ${text}`,
  )
}

/** Something that a command waits for: words for any shell, and a function that ends the wait. */
export interface Gate {
  passed: string
  open(): void
}

let gates = 0

/** Creates a closed gate. A command waits there as long as needed, however busy the machine is. */
export function closedGate({ base }: { base: string }): Gate {
  const file = path.join(base, `gate-${++gates}`)
  return { passed: `until [ -e '${file}' ]; do sleep 0.01; done`, open: () => writeFileSync(file, '') }
}

/**
 * The end of a job whose timeout came after it had printed `up`. The startup counts against the timeout, and takes long on
 * a busy machine: a job that did not get that far is started again with more time.
 */
export async function timedOut(jobs: Jobs, options: JobStartOptions, seconds: number) {
  for (let timeoutSeconds = seconds; ; timeoutSeconds *= 2) {
    const job = await jobs.start({ ...options, timeoutSeconds })
    const status = await jobs.wait(job)
    expect(status).toMatchObject({ state: 'exited', reason: 'timeout' })
    if ((await jobs.read(job)).raw.startsWith('up\n')) return { job, status }
  }
}

/** Waits until the command of a job has stopped itself. */
export async function untilStopped(job: { dir: string }): Promise<void> {
  await proc.untilStopped(JSON.parse(readFileSync(path.join(job.dir, 'meta.json'), 'utf8')).commandPid)
}
