/** Bad arguments of execStream and of streams: a TypeError, thrown immediately, and nothing runs. */
import { existsSync } from 'node:fs'
import { OptionError } from 'nacre'
import { expect } from 'vitest'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all } from '../helpers/stream.js'
import { thrownBy } from '../helpers/thrown.js'

/** The OptionError that a call throws. */
function refusalOf(call: () => unknown): OptionError {
  const error = thrownBy(call)
  expect(error).toBeInstanceOf(OptionError)
  expect(error).toBeInstanceOf(TypeError)
  return error as OptionError
}

itInSandbox('execStream throws for bad options and commands, and nothing runs', async (workplace) => {
  const { sandbox, stateDir } = workplace
  const badOptions: Array<[object, string, string]> = [
    [{ timeout: -1 }, 'INVALID_OPTION', 'timeout'],
    [{ timeOut: 5 }, 'INVALID_OPTION', 'execStream has no option "timeOut"'],
    [{ encoding: 'latin1' }, 'INVALID_OPTION', 'encoding'],
    [{ maxBuffer: -1 }, 'INVALID_OPTION', 'maxBuffer'],
    [{ signal: 'SIGTERM' }, 'INVALID_OPTION', 'AbortSignal'],
    [{ sessionId: 'a/b' }, 'INVALID_ID', 'sessionId'],
    [{ env: { 'A=B': 'x' } }, 'INVALID_ENV_NAME', '"A=B"'],
    [{ input: 5 }, 'INVALID_OPTION', 'input'],
    [[], 'INVALID_OPTION', 'the options of execStream'],
  ]
  for (const [options, code, mentions] of badOptions) {
    const error = refusalOf(() => sandbox.execStream('true', options as never))
    expect([error.code, error.message]).toEqual([code, expect.stringContaining(mentions)])
  }
  for (const bad of ['', ' \n', 'a\0', [], [''], undefined, null, 5])
    expect(refusalOf(() => sandbox.execStream(bad as never)).code).toBe('INVALID_COMMAND')
  expect(existsSync(stateDir)).toBe(false)

  const session = await sandbox.createSession({ id: 'a' })
  const error = refusalOf(() => session.execStream('true', { sessionId: 'a' } as never))
  expect(error.message).toContain('session.execStream has no option "sessionId"')
})

itInSandbox('lines and toReadableStream throw, and the stream can still be read', async ({ sandbox }) => {
  const stream = sandbox.execStream('echo x')
  for (const read of [
    (options: unknown) => stream.lines(options as never),
    (options: unknown) => stream.toReadableStream(options as never),
  ])
    for (const [options, mentions] of [
      [{ from: 'both' }, "'stdout', 'stderr' or 'all'"],
      [{ from: 1 }, 'from'],
      [{ form: 'all' }, 'has no option "form"'],
      ['all', 'the options of'],
    ] as const)
      expect(refusalOf(() => read(options))).toMatchObject({
        ...{ code: 'INVALID_OPTION', message: expect.stringContaining(mentions) },
      })
  expect(await all(stream.lines({ from: undefined }))).toEqual(['x'])
})
