/** Programs that lead to no server: the error says what happened, what was printed, and leaves nothing. */
import { connectProgram, OptionError, SandboxError } from 'nacre/engine'
import { describe, expect, it } from 'vitest'
import { server, withTag } from '../helpers/program.js'
import { rejectionOf } from '../helpers/thrown.js'

const cases: Array<[string, string[], object, string, string[]]> = [
  [
    'that does not exist',
    ['/proc/does/not/exist', 'x'],
    {},
    'SPAWN_FAILED',
    ['/proc/does/not/exist x cannot be started (ENOENT)', 'PATH'],
  ],
  [
    'whose variables are too large',
    ['true'],
    { env: { LARGE: 'x'.repeat(3_000_000) } },
    'SPAWN_FAILED',
    ['true cannot be started (E2BIG): its arguments or variables are too large'],
  ],
  [
    'whose shell finds no nacre',
    ['sh', '-c', 'no-such-nacre serve --stdio'],
    {},
    'CONNECTION_FAILED',
    ['ended with exit code 127', 'install nacre', 'It printed: ', 'no-such-nacre'],
  ],
  [
    'that prints its error on standard output, as docker does',
    ['sh', '-c', 'echo "OCI runtime exec failed: no such file"; exit 126'],
    {},
    'CONNECTION_FAILED',
    ['exit code 126 before it answered', 'OCI runtime exec failed: no such file'],
  ],
  [
    'that is killed',
    ['sh', '-c', 'kill -9 $$'],
    {},
    'CONNECTION_FAILED',
    ['was ended by SIGKILL', 'It printed nothing'],
  ],
  [
    'that says nothing',
    ['sh', '-c', 'trap "" TERM; sleep 60; sleep 60'],
    { connectTimeout: 300 },
    'CONNECTION_FAILED',
    ['did not answer within 300 ms (connectTimeout)', 'nacre serve --stdio'],
  ],
  ['that echoes', ['cat'], { connectTimeout: 300 }, 'CONNECTION_FAILED', ['did not answer within 300 ms']],
  [
    'that prints without end',
    ['yes'],
    {},
    'CONNECTION_FAILED',
    ['yes printed more than 65536 bytes before it answered', 'It printed: y\ny'],
  ],
  [
    'whose server refuses its options',
    [...server, '--port', '4747'],
    {},
    'CONNECTION_FAILED',
    ['ended with exit code 2', '--stdio and --port exclude each other'],
  ],
  [
    'whose server can run no command',
    [...server],
    { env: { PATH: '/proc/does/not/exist' } },
    'CONNECTION_FAILED',
    ['ended with exit code 1', 'install bash'],
  ],
]

describe('a program', () => {
  it.each(cases)('%s is refused', (_name, argv, options, code, texts) =>
    withTag(async (tag) => {
      const env = { NACRE_TEST_TAG: tag, ...(options as { env?: object }).env }
      const error = await rejectionOf(connectProgram(argv, { ...options, env }))
      expect(error).toBeInstanceOf(SandboxError)
      expect(error).toMatchObject({ code })
      for (const text of texts) expect(error.message).toContain(text)
      expect(error.message.length).toBeLessThan(5000)
    }),
  )

  it('that prints much shows the last of it', () =>
    withTag(async (tag) => {
      const argv = ['sh', '-c', 'seq 100000 >&2; exit 1']
      const { message } = await rejectionOf(connectProgram(argv, { env: { NACRE_TEST_TAG: tag } }))
      expect(message.endsWith('\n99999\n100000')).toBe(true)
      expect(message.length).toBeLessThan(5000)
    }))

  it('is ended by an abort, before it runs and while it does', () =>
    withTag(async (tag) => {
      const reason = new Error('enough')
      const options = (signal: AbortSignal) => ({ signal, env: { NACRE_TEST_TAG: tag } })
      const early = await rejectionOf(connectProgram(['sleep', '60'], options(AbortSignal.abort(reason))))
      expect(early).toMatchObject({ name: 'AbortError', cause: reason })
      const stop = new AbortController()
      const late = rejectionOf(
        connectProgram(['sh', '-c', 'echo on >&2; sleep 60; sleep 60'], {
          ...options(stop.signal),
          onStderr: () => stop.abort(reason),
        }),
      )
      expect(await late).toMatchObject({ name: 'AbortError', cause: reason })
    }))
})

it.each<[unknown, unknown, string]>([
  ['ssh host nacre', undefined, 'argv must be a list of arguments'],
  [[], undefined, 'at least one argument'],
  [['a', 1], undefined, 'strings only'],
  [['true'], { token: 'x' }, 'token'],
])('refuses %j with the options %j', async (argv, options, text) => {
  const error = await rejectionOf(connectProgram(argv as string[], options as object))
  expect(error).toBeInstanceOf(OptionError)
  expect(error.message).toContain(text)
})
