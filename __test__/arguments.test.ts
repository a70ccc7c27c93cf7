/** Bad arguments to the public methods: a TypeError with a code before anything runs, never a synchronous throw. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { OptionError, Sandbox } from 'nacre'
import { afterAll, describe, expect, it } from 'vitest'
import { rejectionOf, rejectionsOf } from './helpers/thrown.js'

const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-arguments-'))
const marker = path.join(directory, 'marker')
const sandbox = new Sandbox({ stateDir: path.join(directory, 'state') })
const command = `touch ${marker}`

afterAll(() => rmSync(directory, { recursive: true }))

/** The checks that every refusal must pass. */
function expectRefusal(error: unknown, code: string, mentions: string) {
  expect(error).toBeInstanceOf(TypeError)
  expect(error).toBeInstanceOf(OptionError)
  expect((error as OptionError).code).toBe(code)
  expect((error as OptionError).message).toContain(mentions)
  expect(existsSync(marker)).toBe(false)
  expect(existsSync(path.join(directory, 'state'))).toBe(false)
}

describe('exec', () => {
  it('checks arguments even when the signal is aborted', async () => {
    const options = { timeout: -1, signal: AbortSignal.abort() }
    expectRefusal(await rejectionOf(sandbox.exec(command, options)), 'INVALID_OPTION', 'timeout')
  })
})

describe('an aborted signal', () => {
  it('rejects with the reason as the cause, and nothing runs', async () => {
    const reason = new Error('changed my mind')
    const errors: unknown[] = []
    const options = { signal: AbortSignal.abort(reason), onError: (error: unknown) => errors.push(error) }
    const rejection = await rejectionOf(sandbox.exec(command, options))
    expect(rejection).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR', cause: reason })
    expect('result' in rejection).toBe(false)
    expect(errors).toEqual([rejection])
    expect(existsSync(path.join(directory, 'state'))).toBe(false)
  })
})

describe('the other methods', () => {
  it('know the default session before anything has run', async () => {
    const session = await sandbox.getSession('default')
    expect(session?.id).toBe('default')
    expect(await sandbox.getSession('other')).toBe(null)
    expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    expect(await rejectionOf(sandbox.createSession({ id: 'default' }))).toMatchObject({
      code: 'SESSION_ALREADY_EXISTS',
    })
    expectRefusal(
      await rejectionOf(session?.exec(command, { sessionId: 'x' } as never) as never),
      'INVALID_OPTION',
      '"sessionId"',
    )
  })
})

describe('the methods for processes', () => {
  it('know of none before anything has run', async () => {
    expect(await sandbox.listProcesses()).toEqual([])
    expect(await sandbox.getProcess('x')).toBe(null)
    expect(await sandbox.killAllProcesses()).toBe(0)
    expect(await sandbox.cleanupCompletedProcesses()).toBe(0)
    expect(await rejectionOf(sandbox.killProcess('x'))).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(existsSync(path.join(directory, 'state'))).toBe(false)
  })
})

describe('new Sandbox', () => {
  it('does no I/O, not even for a directory that does not exist', () => {
    expect(new Sandbox({ cwd: '/proc/no/such/directory' })).toBeInstanceOf(Sandbox)
  })
})

describe('a sandbox that never ran anything', () => {
  it('is destroyed immediately, by one promise, and then refuses calls', async () => {
    const idle = new Sandbox()
    expect(idle.destroy()).toBe(idle.destroy())
    await idle.destroy()
    const refusals = [idle.exec('true'), idle.setEnvVars({}), idle.createSession(), idle.listSessions()]
    const calls = [
      ...refusals,
      idle.getSession('default'),
      idle.deleteSession('default'),
      idle.capabilities(),
    ]
    for (const error of await rejectionsOf(calls)) {
      expect(error).toMatchObject({ name: 'SandboxError', code: 'SANDBOX_DESTROYED' })
    }
  })
})
