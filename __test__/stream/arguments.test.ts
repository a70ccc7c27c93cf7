/** What a stream refuses: a TypeError, thrown immediately. Its options are in options/refusals.test.ts. */
import { OptionError } from 'nacre'
import { expect } from 'vitest'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all } from '../helpers/stream.js'
import { thrownBy } from '../helpers/thrown.js'

function refusalOf(call: () => unknown): Error {
  const error = thrownBy(call)
  expect(error).toBeInstanceOf(OptionError)
  return error as Error
}

itInSandbox('execStream of a session has its session', async ({ sandbox }) => {
  const session = await sandbox.createSession({ id: 'a' })
  const error = refusalOf(() => session.execStream('true', { sessionId: 'a' } as never))
  expect(error.message).toContain('session.execStream has no option "sessionId"')
})

itInSandbox('a stream can still be read after a refusal', async ({ sandbox }) => {
  const stream = sandbox.execStream('echo x')
  for (const read of [
    (options: unknown) => stream.lines(options as never),
    (options: unknown) => stream.toReadableStream(options as never),
  ]) {
    expect(refusalOf(() => read({ from: 'both' })).message).toContain("'stdout', 'stderr' or 'all'")
    expect(refusalOf(() => read({ form: 'all' })).message).toContain('has no option "form"')
    expect(refusalOf(() => read('all')).message).toMatch(/^the options of .* must be an object/)
  }
  expect(await all(stream.lines({ from: undefined }))).toEqual(['x'])
})
