/** Bad arguments to the public methods: a TypeError with a code before anything runs, never a synchronous throw. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { OptionError, Sandbox, type SandboxOptions } from 'nacre'
import { afterAll, describe, expect, it } from 'vitest'
import { rejectionOf, rejectionsOf, thrownBy } from './helpers/thrown.js'

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
  const badOptions: Array<[object, string, string]> = [
    [{ timeout: -1 }, 'INVALID_OPTION', 'timeout'],
    [{ timeout: Number.NaN }, 'INVALID_OPTION', 'timeout'],
    [{ timeout: 2 ** 31 }, 'INVALID_OPTION', '2147483647'],
    [{ timeout: '5s' }, 'INVALID_OPTION', '"5s"'],
    [{ forceKillAfterDelay: -1 }, 'INVALID_OPTION', 'forceKillAfterDelay'],
    [{ killSignal: 'SIGFOO' }, 'INVALID_OPTION', 'killSignal'],
    [{ killSignal: 0 }, 'INVALID_OPTION', '1 to 64'],
    [{ killSignal: 99 }, 'INVALID_OPTION', '1 to 64'],
    [{ signal: 'SIGTERM' }, 'INVALID_OPTION', 'AbortSignal'],
    [{ maxBuffer: 1.5 }, 'INVALID_OPTION', 'maxBuffer'],
    [{ encoding: 'latin1' }, 'INVALID_OPTION', "'utf8' or 'buffer'"],
    [{ check: 1 }, 'INVALID_OPTION', 'check'],
    [{ stripFinalNewline: 'yes' }, 'INVALID_OPTION', 'stripFinalNewline'],
    [{ input: 5 }, 'INVALID_OPTION', 'input'],
    [{ onOutput: 'log' }, 'INVALID_OPTION', 'onOutput'],
    [{ onStart: {} }, 'INVALID_OPTION', 'onStart'],
    [{ onComplete: 1 }, 'INVALID_OPTION', 'onComplete'],
    [{ onError: null }, 'INVALID_OPTION', 'onError'],
    [{ cwd: '' }, 'INVALID_OPTION', 'cwd'],
    [{ cwd: 'a\0b' }, 'INVALID_OPTION', 'cwd'],
    [{ cwd: null }, 'INVALID_OPTION', 'cwd'],
    [{ env: { 'A=B': 'x' } }, 'INVALID_ENV_NAME', '"A=B"'],
    [{ env: { '': 'x' } }, 'INVALID_ENV_NAME', '""'],
    [{ env: { A: 'x\0' } }, 'INVALID_OPTION', 'env.A'],
    [{ env: [] }, 'INVALID_OPTION', 'env'],
    [{ sessionId: '../../x' }, 'INVALID_ID', 'sessionId'],
    [{ sessionId: '' }, 'INVALID_ID', 'sessionId'],
    [{ timeOut: 5 }, 'INVALID_OPTION', 'timeOut'],
  ]
  for (const [options, code, mentions] of badOptions) {
    it(`refuses ${JSON.stringify(options)}`, async () => {
      expectRefusal(await rejectionOf(sandbox.exec(command, options)), code, mentions)
    })
  }

  it('refuses options that are no object', async () => {
    for (const options of [null, [], 5, 'x', true]) {
      expectRefusal(
        await rejectionOf(sandbox.exec(command, options as never)),
        'INVALID_OPTION',
        'options of exec',
      )
    }
  })

  it('refuses bad commands', async () => {
    for (const bad of [
      '',
      ' \n',
      `${command}\0`,
      [],
      [''],
      ['touch', `${marker}\0`],
      undefined,
      null,
      5,
      {},
    ]) {
      expectRefusal(await rejectionOf(sandbox.exec(bad as never)), 'INVALID_COMMAND', 'command must')
    }
  })

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
  it('refuse bad variables', async () => {
    expectRefusal(await rejectionOf(sandbox.setEnvVars({ '1A': 'x' })), 'INVALID_ENV_NAME', '"1A"')
    expectRefusal(await rejectionOf(sandbox.setEnvVars({ A: 5 } as never)), 'INVALID_OPTION', 'vars.A')
    expectRefusal(await rejectionOf(sandbox.setEnvVars(undefined as never)), 'INVALID_OPTION', 'vars')
    expectRefusal(await rejectionOf(sandbox.setEnvVars({}, { sessionId: 'a/b' })), 'INVALID_ID', 'sessionId')
    expectRefusal(await rejectionOf(sandbox.setEnvVars({}, { id: 'a' } as never)), 'INVALID_OPTION', '"id"')
  })

  for (const id of ['../../x', '', 'x'.repeat(200), 'a/b', 'a\0b', '.', '..']) {
    it(`refuse the id ${JSON.stringify(id).slice(0, 20)}`, async () => {
      const calls = [sandbox.createSession({ id }), sandbox.getSession(id), sandbox.deleteSession(id)]
      for (const error of await rejectionsOf(calls)) {
        expectRefusal(error, 'INVALID_ID', 'id must be')
      }
    })
  }

  it('refuse bad options of a session', async () => {
    expectRefusal(
      await rejectionOf(sandbox.createSession({ name: 'x' } as never)),
      'INVALID_OPTION',
      '"name"',
    )
    expectRefusal(await rejectionOf(sandbox.createSession({ env: { A: '\0' } })), 'INVALID_OPTION', 'env.A')
    expectRefusal(await rejectionOf(sandbox.createSession(null as never)), 'INVALID_OPTION', 'createSession')
  })

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
  const calls: Array<[string, () => Promise<unknown>, string, string]> = [
    ['startProcess', () => sandbox.startProcess(command, { timeout: -1 }), 'INVALID_OPTION', 'timeout'],
    ['startProcess', () => sandbox.startProcess(command, { processId: '../x' }), 'INVALID_ID', 'processId'],
    ['startProcess', () => sandbox.startProcess(''), 'INVALID_COMMAND', 'command must'],
    [
      'startProcess',
      () => sandbox.startProcess(command, { check: true } as never),
      'INVALID_OPTION',
      '"check"',
    ],
    ['startService', () => sandbox.startService(command, {} as never), 'INVALID_OPTION', 'healthCheck'],
    ['listProcesses', () => sandbox.listProcesses({ status: 'x' } as never), 'INVALID_OPTION', 'status'],
    ['getProcess', () => sandbox.getProcess('a/b'), 'INVALID_ID', 'id must be'],
    ['killProcess', () => sandbox.killProcess(''), 'INVALID_ID', 'id must be'],
    [
      'getProcessLogs',
      () => sandbox.getProcessLogs('x', { encoding: 'x' } as never),
      'INVALID_OPTION',
      'encoding',
    ],
  ]
  for (const [name, call, code, mentions] of calls) {
    it(`refuse: ${name}, ${mentions}`, async () => expectRefusal(await rejectionOf(call()), code, mentions))
  }

  it('know of none before anything has run', async () => {
    expect(await sandbox.listProcesses()).toEqual([])
    expect(await sandbox.getProcess('x')).toBe(null)
    expect(await sandbox.killAllProcesses()).toBe(0)
    expect(await sandbox.forgetEndedProcesses()).toBe(0)
    expect(await rejectionOf(sandbox.killProcess('x'))).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(existsSync(path.join(directory, 'state'))).toBe(false)
  })
})

describe('new Sandbox', () => {
  const badOptions: Array<[object, string]> = [
    [{ timeout: -1 }, 'timeout'],
    [{ maxBuffer: -1 }, 'maxBuffer'],
    [{ killSignal: 'KILL' }, 'killSignal'],
    [{ forceKillAfterDelay: Infinity }, 'forceKillAfterDelay'],
    [{ cwd: 5 }, 'cwd'],
    [{ shell: '' }, 'shell'],
    [{ stateDir: 'a\0' }, 'stateDir'],
    [{ extendEnv: 'no' }, 'extendEnv'],
    [{ surviveExit: 1 }, 'surviveExit'],
    [{ logger: {} }, 'logger'],
    [{ env: { A: 1 } }, 'env.A'],
    [{ unknown: 1 }, '"unknown"'],
  ]
  for (const [options, mentions] of badOptions) {
    it(`throws for ${JSON.stringify(options)}`, () => {
      expectRefusal(
        thrownBy(() => new Sandbox(options as SandboxOptions)),
        'INVALID_OPTION',
        mentions,
      )
    })
  }

  it('does no I/O, not even for a directory that does not exist', () => {
    expect(new Sandbox({ cwd: '/no/such/directory' })).toBeInstanceOf(Sandbox)
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
