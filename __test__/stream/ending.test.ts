/** Exactly one `complete` or `error`, which is the last event, however a command ends. */
import type { Encoding, ExecEvent, ExecOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import { all, made, shapeOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

/** The error of the last event. */
function errorOf(events: ExecEvent<Encoding>[]): unknown {
  const last = events.at(-1)
  return last?.type === 'error' ? last.error : undefined
}

describe('a stream ends', () => {
  const completions: Array<[string, object]> = [
    ['true', { exitCode: 0, signal: null }],
    ['exit 7', { exitCode: 7 }],
    ['set -e; false', { exitCode: 1 }],
    ['echo "unclosed', { exitCode: 2 }],
    ['kill $$', { exitCode: 143 }],
    ['exec false', { exitCode: 1, result: { sessionRestarted: true } }],
    ['/nowhere', { exitCode: 127 }],
  ]
  for (const [command, expected] of completions) {
    it(`with complete after ${command}`, () =>
      withSandbox(async ({ sandbox }) => {
        const events = await all(sandbox.execStream(command))
        expect(events.at(-1)).toMatchObject({ type: 'complete', ...expected })
        expect(events.filter(({ type }) => type === 'complete' || type === 'error')).toHaveLength(1)
      }))
  }

  const failures: Array<[string, string, ExecOptions, string, string]> = [
    ['at its timeout', 'echo x; sleep 60', { timeout: 80 }, 'COMMAND_TIMEOUT', 'start stdout error'],
    ['when a check fails', 'echo x; false', { check: true }, 'COMMAND_FAILED', 'start stdout error'],
    ['without its directory', 'true', { cwd: '/nowhere' }, 'CWD_NOT_FOUND', 'error'],
    ['without its session', 'true', { sessionId: 'none' }, 'SESSION_NOT_FOUND', 'error'],
    ['with an aborted signal', 'true', { signal: AbortSignal.abort() }, 'ABORT_ERR', 'error'],
  ]
  for (const [when, command, options, code, shape] of failures) {
    it(`with error ${when}, and rejects its result with the same`, () =>
      withSandbox(async ({ sandbox }) => {
        const run = async (timeout: number) => {
          const stream = sandbox.execStream(command, { ...options, timeout })
          const events = await all(stream)
          expect(errorOf(events)).toMatchObject({ code })
          expect(errorOf(events)).toBe(await rejectionOf(stream.result))
          return shapeOf(events)
        }
        const hasBegun = (end: string) => options.timeout === undefined || end.includes('stdout')
        expect(await inTime(options.timeout ?? 0, run, hasBegun)).toBe(shape)
      }))
  }

  itInEveryMode('with the AbortError of an abort while it runs', async ({ sandbox, directory }) => {
    const controller = new AbortController()
    const stream = sandbox.execStream('echo x; touch begun; sleep 60', { signal: controller.signal })
    const reading = all(stream)
    await made(directory, 'begun')
    const reason = new Error('enough')
    controller.abort(reason)
    const events = await reading
    expect(shapeOf(events)).toBe('start stdout error')
    expect(errorOf(events)).toMatchObject({ name: 'AbortError', cause: reason, result: { stdout: 'x\n' } })
  })

  it('with what its input throws', () =>
    withSandbox(async ({ sandbox }) => {
      const error = new Error('no more')
      async function* input() {
        yield 'one\n'
        throw error
      }
      expect(errorOf(await all(sandbox.execStream('cat; sleep 60', { input: input() })))).toBe(error)
    }))

  it('with what a callback throws, and gives no output after it', () =>
    withSandbox(async ({ sandbox }) => {
      const error = new Error('thrown')
      const reports: unknown[] = []
      const onOutput = () => {
        throw error
      }
      const options = { onOutput, onError: (reported: unknown) => reports.push(reported) }
      const events = await all(sandbox.execStream('while :; do echo y; done', options))
      expect(shapeOf(events)).toBe('start error')
      expect([errorOf(events), ...reports]).toEqual([error, error])
    }))

  it('with an error when its session or its sandbox goes', () =>
    withSandbox(
      async ({ sandbox, directory }) => {
        const session = await sandbox.createSession({ id: 'goes' })
        const first = all(session.execStream('touch one; sleep 60'))
        const second = all(sandbox.execStream('touch two; sleep 60'))
        const queued = all(sandbox.execStream('touch three'))
        await made(directory, 'one')
        await made(directory, 'two')
        await sandbox.deleteSession('goes')
        expect(errorOf(await first)).toMatchObject({ code: 'SESSION_DESTROYED' })
        await sandbox.destroy()
        for (const events of [await second, await queued]) {
          expect(['SANDBOX_DESTROYED', 'SESSION_DESTROYED']).toContain(
            (errorOf(events) as { code: string }).code,
          )
        }
        const late = sandbox.execStream('true')
        expect(errorOf(await all(late))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        expect(await rejectionOf(late.result)).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        expect(await late.kill()).toBe(false)
      },
      { destroys: true },
    ))
})
