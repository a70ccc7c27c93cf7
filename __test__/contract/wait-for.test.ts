/** The first of several things that a process or a command does is the same here and over HTTP. */
import { describe, expect } from 'vitest'
import type { ExecStream, Process, WaitForOptions } from '../../index.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { type AnySandbox, itHolds } from './helper.js'

type Waiter = Pick<Process & ExecStream, 'kill' | 'waitFor'>

const LONG = 60_000

/** Both have the same waits. */
const KINDS: Array<[string, (sandbox: AnySandbox, command: string) => Promise<Waiter>]> = [
  ['a process', (sandbox, command) => sandbox.startProcess(command)],
  ['a command', async (sandbox, command) => sandbox.execStream(command, { logLimit: 1_000_000 })],
]

for (const [kind, start] of KINDS)
  describe(`waitFor of ${kind}`, () => {
    itHolds('ends by what comes first', async ({ sandbox, directory }) => {
      const command = `echo ready; until [ -e ${directory}/go ]; do sleep 0.01; done; echo done >&2; exit 3`
      const running = await start(sandbox, command)
      const line = { number: 1, stream: 'stdout', text: 'ready', match: true, cut: false, ended: true }
      expect(await running.waitFor({ log: '^r', timeout: LONG })).toEqual({ by: 'log', line })
      expect(await running.waitFor({ log: 'never', idle: 30, timeout: LONG })).toEqual({ by: 'idle' })
      expect(await running.waitFor({ log: '^r', fromLine: 2, timeout: 30 })).toEqual({ by: 'timeout' })
      const next = running.waitFor({ log: 'o', fromLine: 2, timeout: LONG })
      const end = running.waitFor({ log: 'never' })
      await sandbox.files.write(`${directory}/go`, '')
      expect(await next).toMatchObject({ by: 'log', line: { number: 2, stream: 'stderr', text: 'done' } })
      const exit = { by: 'exit', exit: { exitCode: 3, signal: null, reason: 'exit' } }
      expect(await end).toEqual(exit)
      expect(await running.waitFor()).toEqual(exit)
      expect(await running.waitFor({ log: 'done' })).toMatchObject({ by: 'log', line: { number: 2 } })
    })

    itHolds(
      'finds an unterminated line, and the last line of a command that has ended',
      async ({ sandbox }) => {
        const running = await start(sandbox, 'printf "Name? "; sleep 600')
        expect(await running.waitFor({ log: '\\? $', timeout: LONG })).toMatchObject({
          line: { text: 'Name? ', ended: false },
        })
        await running.kill()
        const ended = await start(sandbox, 'seq 1000; printf end')
        expect(await ended.waitFor({ log: '^end$' })).toMatchObject({ by: 'log', line: { number: 1001 } })
      },
    )

    itHolds('refuses a bad expression, and ends with its signal', async ({ sandbox }) => {
      const running = await start(sandbox, 'sleep 600')
      const abort = new AbortController()
      const calls: unknown[] = [{ log: '(' }, { signal: AbortSignal.abort() }, { signal: abort.signal }]
      const errors = rejectionsOf(calls.map((options) => running.waitFor(options as WaitForOptions)))
      abort.abort()
      expect((await errors).map(({ name }) => name)).toEqual(['OptionError', 'AbortError', 'AbortError'])
      expect((await errors)[0]?.message).toMatch(/^log must be/)
      await running.kill()
    })
  })

describe('a command', () => {
  itHolds('waits for input when a program reads it', async ({ sandbox }) => {
    // Never ends, so that the pipe stays open.
    async function* input(): AsyncGenerator<string> {
      await new Promise(() => {})
      yield ''
    }
    const stream = sandbox.execStream('sleep 0.1; cat', { input: input() })
    expect(await stream.waitForInput({ timeout: LONG })).toMatchObject({
      state: 'reading',
      how: 'pipe',
      program: 'cat',
    })
    expect(await stream.waiting()).toMatchObject({ state: 'reading', sure: true })
    expect(await stream.waitFor({ input: true })).toMatchObject({ by: 'input', input: { program: 'cat' } })
    const errors = rejectionsOf([
      stream.waitForInput({ signal: AbortSignal.abort() }),
      stream.waitFor({ idle: 1 }),
    ])
    expect(await errors).toMatchObject([{ name: 'AbortError' }, { code: 'INVALID_OPTION' }])
    const waits = [stream.waitFor(), stream.waitForInput().catch(({ code }) => code)]
    await stream.kill('SIGKILL')
    expect(await Promise.all(waits)).toEqual([
      { by: 'exit', exit: { exitCode: null, signal: 'SIGKILL', reason: 'killed' } },
      'PROCESS_EXITED_BEFORE_READY',
    ])
    expect(await stream.waiting()).toBeNull()
    expect(await stream.waitFor()).toMatchObject({ by: 'exit', exit: { signal: 'SIGKILL' } })
  })

  itHolds(
    'does not wait for input because older processes of its session do',
    async ({ sandbox, directory }) => {
      await sandbox.exec(`mkfifo ${directory}/fifo; cat < ${directory}/fifo & `)
      const stream = sandbox.execStream('echo on; sleep 600', { logLimit: 1000 })
      await stream.waitFor({ log: 'on' })
      expect(await stream.waiting()).toBeNull()
      await stream.kill()
    },
  )
})

describe('a stream that nothing reads', () => {
  itHolds('ends the waits for a command that has ended', async ({ sandbox, directory }) => {
    const command = `for i in $(seq 40); do echo $i; sleep 0.01; done; touch ${directory}/done; exit 3`
    const exit = { by: 'exit', exit: { exitCode: 3, signal: null, reason: 'exit' } }
    for (const logLimit of [undefined, 10_000]) {
      const stream = sandbox.execStream(command, { logLimit })
      await holds(async () => await sandbox.files.exists(`${directory}/done`))
      expect(await stream.waitFor({ timeout: LONG })).toEqual(exit)
      expect(await rejectionOf(stream.waitForInput({ timeout: LONG }))).toMatchObject({
        code: 'PROCESS_EXITED_BEFORE_READY',
      })
      expect(await stream.waiting()).toBeNull()
      expect((await stream.result).exitCode).toBe(3)
      await sandbox.files.remove(`${directory}/done`)
    }
  })

  itHolds('waits for nothing that ends while the question is on its way', async ({ sandbox }) => {
    for (let round = 0; round < 50; round++) {
      const stream = sandbox.execStream('exit 3')
      expect(await stream.waiting()).toBeNull()
      expect(await stream.waitFor()).toMatchObject({ by: 'exit', exit: { exitCode: 3 } })
    }
  })

  itHolds('does not say that a command exited that ended with its session', async ({ sandbox }) => {
    for (const logLimit of [undefined, 1000]) {
      const session = await sandbox.createSession()
      const stream = session.execStream('cat', { input: 'pipe', logLimit })
      const result = rejectionOf(stream.result)
      const waits = [stream.waitFor()]
      await stream.waitForInput()
      await sandbox.deleteSession(session.id)
      await result
      waits.push(stream.waitFor())
      const exit = { exitCode: null, signal: null, reason: null }
      expect(await Promise.all(waits)).toEqual(waits.map(() => ({ by: 'exit', exit })))
    }
  })
})

describe('lastOutputAt', () => {
  itHolds('is the time of the last output', async ({ sandbox, directory }) => {
    const before = Date.now()
    const process = await sandbox.startProcess(
      `until [ -e ${directory}/go ]; do sleep 0.01; done; echo on; sleep 600`,
    )
    expect([process.lastOutputAt, process.toJSON().lastOutputAt]).toEqual([null, null])
    await sandbox.files.write(`${directory}/go`, '')
    await process.waitForLog('on')
    await process.getStatus()
    const last = await until(
      () => process.lastOutputAt ?? undefined,
      () => 'it has no output',
    )
    expect(last.getTime()).toBeGreaterThanOrEqual(before)
    expect(last.getTime()).toBeLessThanOrEqual(Date.now())
  })
})
