/**
 * A stand-in for a remote sandbox. It runs each command separately, with `sh -c` in a new process, returns the output as
 * trimmed text, a little later, and keeps no state.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type CommandBackend, createRemoteJobs, type RemoteJobsOptions } from '@nacre/remote-jobs'
import type { Jobs } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { until } from '../../../__test__/helpers/until.js'

/** A shell that is called `sh` in a sandbox, and the directory of its programs. */
export interface RemoteShell {
  name: 'dash' | 'bash' | 'BusyBox'
  path: string
}

export interface RemotePlace {
  jobs: Jobs
  backend: CommandBackend
  root: string
  tag: string
  /** Other jobs in the same directory. */
  again(options?: RemoteJobsOptions): Jobs
  /** The running calls. */
  calls: Set<ChildProcess>
}

const LATENCY_MS = 2
/** The location of links called `sh`: in the build directory, since they are the same for every run. */
const links = path.join(__dirname, '../../../target', 'test-shells')

/** The shells among the three that this machine has. */
export const shells: RemoteShell[] = [linked('dash'), linked('bash'), busybox()].filter(
  (shell) => shell !== undefined,
)

function linked(name: 'dash' | 'bash'): RemoteShell | undefined {
  const program = which(name)
  if (program === undefined) return undefined
  const directory = inPlace(name, (unfinished) => symlinkSync(program, path.join(unfinished, 'sh')))
  return { name, path: `${directory}:${process.env.PATH}` }
}

/** With only its own programs, as in a small image: there is no bash. Debian's has no flock, which jobs need. */
function busybox(): RemoteShell | undefined {
  const [program, locker] = [which('busybox'), which('flock')]
  if (program === undefined || locker === undefined) return undefined
  const fill = (unfinished: string) => {
    execFileSync(program, ['--install', '-s', unfinished])
    const flock = path.join(unfinished, 'flock')
    if (!existsSync(flock)) symlinkSync(locker, flock)
  }
  return { name: 'BusyBox', path: inPlace('busybox-with-flock', fill) }
}

/** A directory of links. It appears as a whole, since tests in several processes use it concurrently. */
function inPlace(name: string, fill: (directory: string) => void): string {
  const directory = path.join(links, name)
  if (existsSync(directory)) return directory
  mkdirSync(links, { recursive: true })
  const unfinished = mkdtempSync(`${directory}.`)
  fill(unfinished)
  try {
    renameSync(unfinished, directory)
  } catch (error) {
    // Another process was faster.
    rmSync(unfinished, { recursive: true })
    if (!existsSync(directory)) throw error
  }
  return directory
}

function which(name: string): string | undefined {
  const directories = (process.env.PATH ?? '').split(':')
  return directories.map((directory) => path.join(directory, name)).find((file) => existsSync(file))
}

/**
 * Declares tests once for each available shell; the names of the blocks say which. bash, which is seldom called `sh` and is
 * slow, is only used by tests that request it.
 */
export function inEveryShell(
  subject: string,
  declare: (shell: RemoteShell) => void,
  names: Array<RemoteShell['name']> = ['dash', 'BusyBox'],
): void {
  const chosen = shells.filter(({ name }) => names.includes(name))
  it(`${subject}: there is a shell to run in`, () => expect(chosen.length).toBeGreaterThan(0))
  for (const shell of chosen) describe(`${subject}, in ${shell.name}`, () => declare(shell))
}

/** For slow tests that do not depend on the shell: true for one shell. */
export function isMain(shell: RemoteShell): boolean {
  return shell === shells[0]
}

/** All three. */
export const everyShell: Array<RemoteShell['name']> = ['dash', 'BusyBox', 'bash']

let places = 0

/** Runs a test. Afterwards every job is cancelled and removed, and no process or file may be left. */
export async function withRemoteJobs(
  shell: RemoteShell,
  test: (place: RemotePlace) => Promise<void>,
  options: RemoteJobsOptions = {},
): Promise<void> {
  const tag = `nacre-remote-${process.pid}-${++places}`
  const base = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const root = path.join(base, "jobs and 'more'")
  const calls = new Set<ChildProcess>()
  const backend = standIn(shell, tag, calls)
  const again = (more: RemoteJobsOptions = {}) =>
    createRemoteJobs(backend, { jobsRoot: root, cwd: '/tmp', maxPollInterval: 200, ...options, ...more })
  const jobs = again()
  try {
    await test({ jobs, backend, root, tag, again, calls })
    for (const job of await jobs.list()) {
      await jobs.cancel(job, { graceMs: 100 })
      await jobs.remove(job)
    }
    await expectNoProcess(tag, 10_000)
    const left = () => proc.entries(root).filter((name) => !name.startsWith('@supervisor-'))
    await until(
      () => left().length === 0 || undefined,
      () => `left in the root: ${left().join(', ')}`,
    )
  } finally {
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    rmSync(base, { recursive: true, force: true })
  }
}

/** What such a test also does: it declares itself. */
export function itRemotely(
  shell: RemoteShell,
  name: string,
  test: (place: RemotePlace) => Promise<void>,
  timeout = 60_000,
): void {
  it(name, () => withRemoteJobs(shell, test), timeout)
}

export function standIn(shell: RemoteShell, tag: string, calls = new Set<ChildProcess>()): CommandBackend {
  return {
    process: {
      async executeCommand(command) {
        await sleep(LATENCY_MS)
        const child = spawn('sh', ['-c', command], {
          cwd: '/tmp',
          env: { PATH: shell.path, HOME: '/', NACRE_TEST_TAG: tag },
          stdio: ['ignore', 'pipe', 'pipe'],
        })
        calls.add(child)
        const pieces: Buffer[] = []
        for (const stream of [child.stdout, child.stderr])
          stream.on('data', (data: Buffer) => pieces.push(data))
        const exitCode = await new Promise<number>((resolve, reject) => {
          child.on('error', reject)
          child.on('close', (code, signal) => {
            calls.delete(child)
            if (signal === null) resolve(code ?? 0)
            else reject(new Error(`the call was ended by ${signal}`))
          })
        })
        return { exitCode, result: Buffer.concat(pieces).toString('utf8').trim() }
      },
    },
  }
}

/** Waits until a job has printed this text. */
export async function untilPrintedBy(jobs: Jobs, job: { jobId: string }, text: string): Promise<void> {
  await until(
    async () => ((await jobs.read(job.jobId)).raw.includes(text) ? true : undefined),
    () => `job ${job.jobId} did not print ${text}`,
    15_000,
  )
}
