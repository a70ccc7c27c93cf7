/** Bad arguments of execStream and of streams: a TypeError, thrown immediately, and nothing runs. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { OptionError, Sandbox } from 'nacre'
import { afterAll, describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { all } from '../helpers/stream.js'
import { thrownBy } from '../helpers/thrown.js'

const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-stream-arguments-'))
const stateDir = path.join(directory, 'state')
const sandbox = new Sandbox({ stateDir })

/** The OptionError that a call throws. */
function refusalOf(call: () => unknown): OptionError {
  const error = thrownBy(call)
  expect(error).toBeInstanceOf(OptionError)
  expect(error).toBeInstanceOf(TypeError)
  return error as OptionError
}

afterAll(() => rmSync(directory, { recursive: true }))

describe('execStream', () => {
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
    it(`throws for ${JSON.stringify(options)}`, () => {
      const error = refusalOf(() => sandbox.execStream('true', options as never))
      expect(error.code).toBe(code)
      expect(error.message).toContain(mentions)
      expect(existsSync(stateDir)).toBe(false)
    })
  }

  it('throws for bad commands', () => {
    for (const bad of ['', ' \n', 'a\0', [], [''], undefined, null, 5]) {
      expect(refusalOf(() => sandbox.execStream(bad as never)).code).toBe('INVALID_COMMAND')
    }
    expect(existsSync(stateDir)).toBe(false)
  })

  it('of a session has its session', () =>
    withSandbox(async (workplace) => {
      const session = await workplace.sandbox.createSession({ id: 'a' })
      const error = refusalOf(() => session.execStream('true', { sessionId: 'a' } as never))
      expect(error.message).toContain('session.execStream has no option "sessionId"')
    }))
})

describe('lines and toReadableStream', () => {
  it('throw for bad options, and the stream can still be read', () =>
    withSandbox(async (workplace) => {
      const stream = workplace.sandbox.execStream('echo x')
      for (const read of [
        (options: unknown) => stream.lines(options as never),
        (options: unknown) => stream.toReadableStream(options as never),
      ]) {
        for (const [options, mentions] of [
          [{ from: 'both' }, "'stdout', 'stderr' or 'all'"],
          [{ from: 1 }, 'from'],
          [{ form: 'all' }, 'has no option "form"'],
          ['all', 'the options of'],
        ] as const) {
          const error = refusalOf(() => read(options))
          expect(error.code).toBe('INVALID_OPTION')
          expect(error.message).toContain(mentions)
        }
      }
      expect(await all(stream.lines({ from: undefined }))).toEqual(['x'])
    }))
})
