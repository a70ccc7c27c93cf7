/** What is refused: nothing runs then, and no directory is left. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type JobStartOptions, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { groupsOf, withJobs } from '../helpers/jobs.js'
import { rejectionOf } from '../helpers/thrown.js'

const isRoot = process.getuid?.() === 0

describe('ids', () => {
  it('generated ones are unguessable, and sort in the order of the starts', () =>
    withJobs(async ({ jobs }) => {
      const started: string[] = []
      for (let index = 0; index < 5; index++) started.push((await jobs.start({ command: 'true' })).jobId)
      expect(started).toEqual([...started].sort())
      expect(new Set(started.map((id) => id.slice(-16))).size).toBe(5)
      for (const id of started) {
        expect(id).toMatch(/^[0-9a-z]{29}$/)
        await jobs.wait(id)
      }
    }))

  it('that exist already are refused, and the job there is left alone', () =>
    withJobs(async ({ jobs }) => {
      const job = await jobs.start({ command: 'echo first', jobId: 'same' })
      await jobs.wait(job)
      const starts = await Promise.allSettled(
        Array.from({ length: 5 }, () => jobs.start({ command: 'echo more', jobId: 'same' })),
      )
      for (const start of starts)
        expect(start).toMatchObject({ status: 'rejected', reason: { code: 'JOB_ALREADY_EXISTS' } })
      expect((await jobs.read(job)).raw).toBe('first\n')
    }))

  it('of five concurrent starts with the same id, one wins', () =>
    withJobs(async ({ jobs }) => {
      const starts = await Promise.allSettled(
        Array.from({ length: 5 }, (_, index) => jobs.start({ command: `echo ${index}`, jobId: 'contested' })),
      )
      expect(starts.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      expect(await jobs.list()).toHaveLength(1)
      await jobs.wait('contested')
    }))
})

const bad: Array<[string, object, string, RegExp]> = [
  ['no command', {}, 'INVALID_COMMAND', /command must be given/],
  ['a directory that is not there', { command: 'true', cwd: '/proc/nowhere' }, 'CWD_NOT_FOUND', /\/nowhere/],
  ['a directory that is a file', { command: 'true', cwd: '/etc/passwd' }, 'CWD_NOT_FOUND', /\/etc\/passwd/],
  ['too many descriptors', { command: 'true', limits: { openFiles: 4e9 } }, 'LIMIT_UNSUPPORTED', /openFiles/],
]

describe('start refuses', () => {
  for (const [name, options, code, message] of bad) {
    it(name, () =>
      withJobs(async ({ jobs, root }) => {
        const jobId = `refused-${process.pid}`
        const error = await rejectionOf(jobs.start({ ...options, jobId } as JobStartOptions))
        expect(error).toMatchObject({ code })
        expect(error.message).toMatch(message)
        expect(existsSync(root) ? readdirSync(root) : []).toEqual([])
        expect(groupsOf(new Set([jobId]))).toEqual([])
      }),
    )
  }

  it('an unknown user', () =>
    withJobs(
      async ({ jobs, root }) => {
        const error = await rejectionOf(jobs.start({ command: 'true' }))
        expect(error).toMatchObject({ code: 'SPAWN_FAILED' })
        expect(error.message).toMatch(isRoot ? /no user 'nacre-nobody'/ : /runs as root/)
        expect(existsSync(root) ? readdirSync(root) : []).toEqual([])
      },
      { user: 'nacre-nobody' },
    ))

  it('a root that is a file, or that cannot be created', () =>
    withJobs(async ({ root }) => {
      mkdirSync(root)
      writeFileSync(path.join(root, 'file'), '')
      for (const jobsRoot of [path.join(root, 'file'), path.join(root, 'file', 'below'), '/proc/nowhere']) {
        const sandbox = new Sandbox({ jobsRoot })
        const error = await rejectionOf(sandbox.jobs.start({ command: 'true' }))
        expect(error).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
        expect(error.message).toContain(jobsRoot)
        await sandbox.destroy()
      }
    }))
})

it('limits that need a controller are enforced or refused, never ignored', () =>
  withJobs(async ({ jobs, sandbox, root }) => {
    const open = await jobs.start({ command: 'ulimit -n', limits: { openFiles: 50 } })
    await jobs.wait(open)
    expect((await jobs.read(open)).raw).toBe('50\n')
    if ((await sandbox.capabilities()).controllers.includes('memory')) return
    const error = await rejectionOf(jobs.start({ command: 'true', limits: { memory: 1e9 } }))
    expect(error).toMatchObject({ code: 'LIMIT_UNSUPPORTED' })
    expect(error.message).toContain('memory')
    expect(readdirSync(root)).toEqual([open.jobId])
  }))

if (isRoot) {
  it('a job runs as the sandbox’s user and can open its standard streams by name', () =>
    withJobs(
      async ({ jobs }) => {
        const job = await jobs.start({
          command: 'id -u; cat /dev/stdin; echo err >>/dev/stderr',
          stdin: 'in\n',
        })
        expect(await jobs.wait(job)).toMatchObject({ exitCode: 0 })
        expect((await jobs.read(job)).raw).toBe('65534\nin\nerr\n')
        const long = await jobs.start({ command: `: ${'x'.repeat(200_000)}; id -u` })
        await jobs.wait(long)
        expect((await jobs.read(long)).raw).toBe('65534\n')
      },
      { user: { uid: 65534, gid: 65534 }, cwd: '/' },
    ))
}
