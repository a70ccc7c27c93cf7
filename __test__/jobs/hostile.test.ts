/** What lies in a job's directory freezes nothing, fills no memory, and leads nowhere else. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { type JobPlace, untilGone, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'

const NAMES = ['meta.json', 'exit', 'end.json', 'output.log'] as const
type Name = (typeof NAMES)[number]

/** A call that takes longer hangs at what it found. */
const PROMPT_MS = 10_000
const SPARSE_BYTES = 3 * 1024 ** 3
const MOST_READ = 64 * 1024 ** 2

/** What can lie there instead of a file. `outside` is a file that is not the job's. */
const STRANGE: Record<string, (file: string, outside: string) => void> = {
  'a FIFO': (file) => execFileSync('mkfifo', [file]),
  'a symlink': (file, outside) => symlinkSync(outside, file),
  'a directory': (file) => mkdirSync(file),
  'a socket': (file) =>
    execFileSync(
      process.execPath,
      [
        '-e',
        `require('net').createServer().listen('s', () => {
    require('fs').renameSync('s', ${JSON.stringify(file)}); process.exit() })`,
      ],
      { cwd: path.dirname(file) },
    ),
}

/** A job that has ended, with something else in the place of one of its files. */
async function tampered(place: JobPlace, name: Name, put: (file: string) => void): Promise<string> {
  const { jobs, root } = place
  const { jobId } = await jobs.start({ command: 'echo own' })
  await jobs.wait(jobId)
  // Its guard ends a moment later. Without a readable exit, a job with a guard is running.
  await untilGone(place, jobId)
  const file = path.join(root, jobId, name)
  rmSync(file)
  put(file)
  return jobId
}

/** The outcome of a call, or 'late'. */
async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(() => resolve('late'), PROMPT_MS)
  })
  const result = await Promise.race([call.catch((error: { code?: string }) => error.code), late])
  clearTimeout(timer)
  return result
}

async function first(pieces: AsyncIterable<unknown>): Promise<unknown> {
  for await (const piece of pieces) return piece
  return undefined
}

function callsOf({ jobs }: JobPlace, id: string): Record<string, () => Promise<unknown>> {
  return {
    list: () => jobs.list(),
    status: () => jobs.status(id),
    read: () => jobs.read(id),
    attach: () => jobs.attach(id),
    wait: () => jobs.wait(id, { signal: AbortSignal.timeout(PROMPT_MS / 2) }),
    follow: () => first(jobs.follow(id, 0, { signal: AbortSignal.timeout(PROMPT_MS / 2) })),
    cancel: () => jobs.cancel(id),
    remove: () => jobs.remove(id),
  }
}

describe.each(Object.entries(STRANGE))('%s', (kind, put) => {
  it.each(NAMES)('in the place of %s blocks no call and no other session', (name) =>
    withJobs(async (place) => {
      const outside = path.join(place.base, 'outside')
      writeFileSync(outside, 'secret\n')
      const id = await tampered(place, name, (file) => put(file, outside))
      for (const [call, make] of Object.entries(callsOf(place, id))) {
        const [outcome, echo] = await Promise.all([
          outcomeOf(make()),
          outcomeOf(place.sandbox.exec('echo alive')),
        ])
        expect(outcome, `${call} with ${kind} as ${name}`).not.toBe('late')
        expect(JSON.stringify(outcome ?? null), call).not.toContain('secret')
        expect(echo, call).toMatchObject({ stdout: 'alive\n' })
      }
      expect(existsSync(path.join(place.root, id))).toBe(false)
      expect(readFileSync(outside, 'utf8')).toBe('secret\n')
    }),
  )
})

it('a FIFO or a file called like an unfinished job blocks neither list nor a start of that id', () =>
  withJobs(async ({ jobs, root, sandbox }) => {
    await jobs.wait(await jobs.start({ command: 'true' }))
    execFileSync('mkfifo', [path.join(root, '~fifo')])
    writeFileSync(path.join(root, '~file'), 'mine')
    expect(await outcomeOf(jobs.list())).toHaveLength(1)
    for (const jobId of ['fifo', 'file'])
      expect(await outcomeOf(jobs.start({ command: 'true', jobId }))).toBe('STATE_DIR_UNAVAILABLE')
    expect(await outcomeOf(sandbox.exec('echo alive'))).toMatchObject({ stdout: 'alive\n' })
    expect(readFileSync(path.join(root, '~file'), 'utf8')).toBe('mine')
    for (const name of ['~fifo', '~file']) rmSync(path.join(root, name))
  }))

it.each(NAMES)('a sparse %s of 3 GB is not read whole', (name) =>
  withJobs(async (place) => {
    const id = await tampered(place, name, (file) => {
      writeFileSync(file, '')
      truncateSync(file, SPARSE_BYTES)
    })
    const before = proc.bytes('rchar')
    const { jobs } = place
    for (const call of [
      () => jobs.list(),
      () => jobs.status(id),
      () => jobs.read(id, 0, { maxBytes: 1024 }),
      () => jobs.attach(id),
    ])
      expect(await outcomeOf(call())).not.toBe('late')
    expect(proc.bytes('rchar') - before).toBeLessThan(MOST_READ)
    await jobs.remove(id)
  }),
)

it('a control group of meta.json that is none is left alone, by cancel and by remove', () =>
  withJobs(async (place) => {
    const { jobs, root, base, sandbox } = place
    const { jobId } = await jobs.start({ command: 'true' })
    await jobs.wait(jobId)
    const file = path.join(root, jobId, 'meta.json')
    const meta = JSON.parse(readFileSync(file, 'utf8'))
    const forged = path.join(base, `nacre-job-${meta.pid}-${jobId}`)
    mkdirSync(forged)
    execFileSync('mkfifo', [path.join(forged, 'cgroup.kill')])
    writeFileSync(file, JSON.stringify({ ...meta, cgroup: forged }))
    for (const call of [() => jobs.cancel(jobId), () => jobs.remove(jobId)]) {
      expect(await outcomeOf(call())).toBeUndefined()
      expect(await outcomeOf(sandbox.exec('echo alive'))).toMatchObject({ stdout: 'alive\n' })
    }
    expect(readdirSync(forged)).toEqual(['cgroup.kill'])
  }))

describe('list removes only leftovers of a start or a remove', () => {
  const unfinished = (root: string) => readdirSync(root).filter((name) => name.startsWith('~'))

  it('so directories of that name with anything else in them stay', () =>
    withJobs(async ({ jobs, root }) => {
      const { jobId } = await jobs.start({ command: 'echo kept' })
      await jobs.wait(jobId)
      for (const name of ['~empty', '~notes', '~deep/er'])
        mkdirSync(path.join(root, name), { recursive: true, mode: 0o700 })
      writeFileSync(path.join(root, '~notes', 'output.log'), 'mine')
      execFileSync('cp', ['-a', path.join(root, jobId), path.join(root, `~${jobId}`)])
      expect(await jobs.list()).toHaveLength(1)
      expect(unfinished(root).sort()).toEqual([`~${jobId}`, '~deep', '~empty', '~notes'].sort())
      for (const name of unfinished(root)) rmSync(path.join(root, name), { recursive: true })
    }))

  it('and a symlink of that name is neither followed nor removed', () =>
    withJobs(async ({ jobs, root, base }) => {
      await jobs.wait(await jobs.start({ command: 'true' }))
      const outside = path.join(base, 'precious')
      mkdirSync(outside, { mode: 0o700 })
      writeFileSync(path.join(outside, 'file'), 'mine')
      symlinkSync(outside, path.join(root, '~link'))
      await jobs.list()
      expect(readFileSync(path.join(outside, 'file'), 'utf8')).toBe('mine')
      expect(lstatSync(path.join(root, '~link')).isSymbolicLink()).toBe(true)
      rmSync(path.join(root, '~link'))
    }))

  it('and the leftovers of an interrupted remove are removed', () =>
    withJobs(async (place) => {
      const { jobs, root } = place
      const { jobId } = await jobs.start({ command: 'true' })
      // The supervisor records the end, and holds the directory until it ends itself.
      await untilGone(place, jobId)
      const directory = path.join(root, jobId)
      writeFileSync(path.join(directory, `.unfinished-${lstatSync(directory).ino}`), '')
      renameSync(directory, path.join(root, `~${jobId}`))
      expect(await jobs.list()).toEqual([])
      expect(unfinished(root)).toEqual([])
    }))

  it('and a finished job has no mark', () =>
    withJobs(async ({ jobs, root }) => {
      const { jobId } = await jobs.start({ command: 'true' })
      expect(readdirSync(path.join(root, jobId)).filter((name) => name.startsWith('.'))).toEqual([])
      await jobs.wait(jobId)
    }))
})
