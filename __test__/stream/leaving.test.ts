/** Breaking out of a stream leaves nothing behind, and the session survives. */
import type { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Runs until it is killed, prints without end, and has a child that prints nothing. */
const endless = (nap: string) => `x=2; ${nap} & yes`

/** The state from before is there, and that of the killed command. */
async function expectState(sandbox: Sandbox): Promise<void> {
  expect((await sandbox.exec('echo $x; f; pwd')).stdout).toBe('2\nf\n/usr\n')
}

itInEveryMode('break ends the command and all it started before the loop is left', async ({ sandbox }) => {
  const [job, nap] = [proc.uniqueSleep(), proc.uniqueSleep()]
  await sandbox.exec(`x=1; f() { echo f; }; cd /usr; ${job} &`)
  await proc.untilRuns(job)
  const stream = sandbox.execStream(endless(nap))
  for await (const event of stream) {
    if (event.type === 'stdout') break
  }
  expect(proc.runs(nap)).toBe(false)
  expect(proc.runs(job)).toBe(true)
  expect(await stream.result).toMatchObject({
    success: false,
    cancelled: true,
    signal: 'SIGTERM',
    exitCode: null,
  })
  await expectState(sandbox)
})

describe('leaving', () => {
  it('by an exception in the loop ends the command too', () =>
    withSandbox(async ({ sandbox }) => {
      const nap = proc.uniqueSleep()
      const error = new Error('of the loop')
      const read = async () => {
        for await (const { type } of sandbox.execStream(endless(nap))) {
          if (type === 'stdout') throw error
        }
      }
      expect(await rejectionOf(read())).toBe(error)
      expect(proc.runs(nap)).toBe(false)
    }))

  it('while nothing comes settles pending reads immediately', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const nap = proc.uniqueSleep()
      const events = sandbox.execStream(`touch begun; ${nap}`)[Symbol.asyncIterator]()
      expect(await events.next()).toMatchObject({ value: { type: 'start' } })
      const pending = [events.next(), events.next()]
      await made(directory, 'begun')
      expect(await events.return?.()).toEqual({ done: true, value: undefined })
      expect(proc.runs(nap)).toBe(false)
      for (const step of pending) expect(await step).toEqual({ done: true, value: undefined })
      expect(await events.next()).toEqual({ done: true, value: undefined })
    }))

  it('kills by SIGKILL what does not end, after forceKillAfterDelay', () =>
    withSandbox(async ({ sandbox }) => {
      const nap = proc.uniqueSleep()
      const stubborn = `trap '' TERM; echo x; while :; do ${nap}; done`
      const stream = sandbox.execStream(['bash', '-c', stubborn], { forceKillAfterDelay: 100 })
      for await (const { type } of stream) if (type === 'stdout') break
      expect(proc.runs(nap)).toBe(false)
      expect((await stream.result).signal).toBe('SIGKILL')
    }))

  it('in the queue keeps the command from running', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const first = sandbox.execStream('touch begun; sleep 60')
      const second = sandbox.execStream('touch ran')
      await made(directory, 'begun')
      await second[Symbol.asyncDispose]()
      expect(await second.result).toMatchObject({
        cancelled: true,
        exitCode: null,
        signal: null,
        duration: 0,
      })
      await first[Symbol.asyncDispose]()
      expect((await sandbox.exec('ls')).stdout).toBe('begun\n')
    }))

  it('after the last event kills nothing', () =>
    withSandbox(async ({ sandbox }) => {
      const nap = proc.uniqueSleep()
      const stream = sandbox.execStream(`${nap} & echo hi`)
      for await (const { type } of stream) if (type === 'complete') break
      await until(
        () => proc.runs(nap) || undefined,
        () => 'the job was killed, or never began',
      )
      expect(await stream.result).toMatchObject({ success: true, stdout: 'hi\n' })
    }))

  it('comes by itself at the end of `await using`', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const nap = proc.uniqueSleep()
      {
        await using _stream = sandbox.execStream(`touch begun; ${nap}`)
        await made(directory, 'begun')
      }
      expect(proc.runs(nap)).toBe(false)
    }))

  it('lines() and toReadableStream() ends the command too', () =>
    withSandbox(async ({ sandbox }) => {
      const nap = proc.uniqueSleep()
      for await (const line of sandbox.execStream(endless(nap)).lines()) {
        expect(line).toBe('y')
        break
      }
      expect(proc.runs(nap)).toBe(false)
      const reader = sandbox.execStream(endless(nap)).toReadableStream().getReader()
      expect((await reader.read()).done).toBe(false)
      await reader.cancel()
      expect(proc.runs(nap)).toBe(false)
    }))

  it('a hundred streams in a row leaves nothing', () =>
    withSandbox(async ({ sandbox }) => {
      for (let round = 0; round < 100; round++) {
        for await (const { type } of sandbox.execStream('while :; do echo x; done'))
          if (type === 'stdout') break
      }
    }))
})
