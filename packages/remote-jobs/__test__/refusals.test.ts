/** What remote jobs refuse, and backends that fail: clear errors, nothing runs, nothing is left. */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { type CommandBackend, createRemoteJobs } from '@nacre/remote-jobs'
import { type JobStartOptions, OptionError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { rejectionOf, thrownBy } from '../../../__test__/helpers/thrown.js'
import { type RemotePlace, shells, standIn, withRemoteJobs } from './places.js'

function withJobs(test: (place: RemotePlace) => Promise<void>): Promise<void> {
  const [shell] = shells
  if (shell === undefined) throw new Error('no shell')
  return withRemoteJobs(shell, test)
}

const never: CommandBackend = {
  process: { executeCommand: () => Promise.reject(new Error('this must not be called')) },
}

describe('createRemoteJobs refuses', () => {
  const bad: Array<[string, unknown, unknown, RegExp]> = [
    ['no backend', undefined, {}, /^backend must have the method process\.executeCommand/],
    ['a backend that can do nothing', { process: {} }, {}, /^backend must have/],
  ]
  for (const [name, backend, options, message] of bad) {
    it(name, () => {
      const error = thrownBy(() => createRemoteJobs(backend as never, options as never)) as OptionError
      expect(error).toBeInstanceOf(OptionError)
      expect(error.message).toMatch(message)
    })
  }
})

describe('without asking the backend, start refuses', () => {
  const bad: Array<[string, unknown, string]> = [
    ['a blank command', { command: ' ' }, 'INVALID_COMMAND'],
    ['a program with =', { command: ['a=b', 'c'] }, 'INVALID_COMMAND'],
    ['an id that is a path', { command: 'true', jobId: '../x' }, 'INVALID_ID'],
    ['a NUL', { command: 'true', env: { A: '\0' } }, 'INVALID_OPTION'],
    ['a timeout of 0', { command: 'true', timeoutSeconds: 0 }, 'INVALID_OPTION'],
    ['a limit of memory', { command: 'true', limits: { memory: 1e9 } }, 'LIMIT_UNSUPPORTED'],
  ]
  for (const [name, options, code] of bad) {
    it(name, async () =>
      expect(await rejectionOf(createRemoteJobs(never).start(options as JobStartOptions))).toMatchObject({
        code,
      }),
    )
  }
})

it('problems that only the other machine can detect are refused there, and leave nothing', () =>
  withJobs(async ({ jobs, root }) => {
    await jobs.list()
    const nothing = readdirSync(root)
    const cwd = await rejectionOf(jobs.start({ command: 'true', cwd: "/no'where" }))
    expect(cwd).toMatchObject({ code: 'CWD_NOT_FOUND' })
    expect(cwd.message).toContain("/no'where")
    for (const file of ['/etc/passwd', 'etc'])
      await expect(jobs.start({ command: 'true', cwd: file })).rejects.toMatchObject({
        code: 'CWD_NOT_FOUND',
      })
    const limit = await rejectionOf(jobs.start({ command: 'true', limits: { openFiles: 4e9 } }))
    expect(limit).toMatchObject({ code: 'LIMIT_UNSUPPORTED' })
    expect(readdirSync(root)).toEqual(nothing)
    const some = await jobs.start({ command: 'ulimit -n', limits: { openFiles: 50 } })
    await jobs.wait(some)
    expect((await jobs.read(some)).raw).toBe('50\n')
  }))

it('a root that cannot be created, or belongs to another user, is not used', () =>
  withJobs(async ({ again, root }) => {
    mkdirSync(root)
    writeFileSync(`${root}/file`, '')
    for (const jobsRoot of [`${root}/file`, `${root}/file/below`, '/proc/nowhere']) {
      const error = await rejectionOf(again({ jobsRoot }).start({ command: 'true' }))
      expect(error).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
    }
    chmodSync(root, 0o755)
    expect(readdirSync(root)).toEqual(['file'])
    rmSync(`${root}/file`)
  }))

describe('a backend', () => {
  it('that fails is an ENGINE_ERROR with its cause', async () => {
    const error = await rejectionOf(createRemoteJobs(never).list())
    expect(error).toMatchObject({ code: 'ENGINE_ERROR', cause: { message: 'this must not be called' } })
    const mute = { process: { executeCommand: async () => ({ exitCode: 1, result: 'sh: not found' }) } }
    const reply = await rejectionOf(createRemoteJobs(mute).list())
    expect(reply).toMatchObject({ code: 'ENGINE_ERROR' })
    expect(reply.message).toContain('sh: not found')
  })

  it('may greet, end lines with CRLF, and print its times: only the text between the marks counts', () =>
    withJobs(async ({ backend, root }) => {
      const timeouts: unknown[] = []
      const chatty: CommandBackend = {
        process: {
          async executeCommand(command, cwd, env, timeout) {
            expect([cwd, env]).toEqual([undefined, undefined])
            timeouts.push(timeout)
            const { exitCode, result } = await backend.process.executeCommand(command)
            return { exitCode, result: `Welcome!\r\n${result.replaceAll('\n', '\r\n')}\r\nlogout` }
          },
        },
      }
      const jobs = createRemoteJobs(chatty, { jobsRoot: root, callTimeout: 1500 })
      const job = await jobs.start({ command: 'echo hi' })
      await jobs.wait(job)
      expect((await jobs.read(job)).raw).toBe('hi\n')
      expect(new Set(timeouts)).toEqual(new Set([2]))
    }))

  it('is asked with plain words, whatever a job holds, and none is long', () =>
    withJobs(async ({ backend, root }) => {
      const seen: string[] = []
      const watched: CommandBackend = {
        process: {
          executeCommand(command) {
            seen.push(command)
            return backend.process.executeCommand(command)
          },
        },
      }
      const jobs = createRemoteJobs(watched, { jobsRoot: root })
      const job = await jobs.start({ command: `echo "it's"; : ${'é'.repeat(100_000)}`, env: { A: "'; x" } })
      await jobs.wait(job)
      expect((await jobs.read(job)).raw).toBe("it's\n")
      for (const line of seen) {
        expect(line.length).toBeLessThan(120_000)
        expect(line).toMatch(/^sh -c '[^']*'( [A-Za-z0-9+/=@._~-]+)*$/)
      }
    }))
})

it('the script is uploaded once, and again after it was removed', () =>
  withJobs(async ({ jobs, again, root, tag }) => {
    await jobs.list()
    const [script = ''] = readdirSync(root)
    expect(script).toMatch(/^@supervisor-[0-9a-f]{16}\.sh$/)
    const [shell] = shells
    let calls = 0
    if (shell === undefined) return
    const backend = standIn(shell, tag)
    const counted = createRemoteJobs(
      {
        process: {
          executeCommand(command) {
            calls++
            return backend.process.executeCommand(command)
          },
        },
      },
      { jobsRoot: root },
    )
    await counted.list()
    expect(calls).toBe(1)
    await Promise.all([again().list(), again().list()])
    expect(readdirSync(root)).toEqual([script])
    expect(existsSync(`${root}/${script}`)).toBe(true)
  }))
