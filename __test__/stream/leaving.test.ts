/** Breaking out of a stream leaves nothing behind, and the session survives. */

import type { ExecStream } from 'nacre'
import { describe, expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { made } from '../helpers/stream.js'
import { holds } from '../helpers/until.js'

/** Runs until it is killed, prints without end, and has a child that prints nothing. */
const endless = (nap: string) => `x=2; ${nap} & yes`

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
    ...{ success: false, cancelled: true, signal: 'SIGTERM', exitCode: null },
  })
  // The state from before is there, and that of the killed command.
  expect((await sandbox.exec('echo $x; f; pwd')).stdout).toBe('2\nf\n/usr\n')
})

describe('leaving', () => {
  itInSandbox('while nothing comes settles pending reads immediately', async ({ sandbox, directory }) => {
    const nap = proc.uniqueSleep()
    const events = sandbox.execStream(`touch begun; ${nap}`)[Symbol.asyncIterator]()
    expect(await events.next()).toMatchObject({ value: { type: 'start' } })
    const pending = [events.next(), events.next()]
    await made(directory, 'begun')
    expect(await events.return?.()).toEqual({ done: true, value: undefined })
    expect(proc.runs(nap)).toBe(false)
    for (const step of pending) expect(await step).toEqual({ done: true, value: undefined })
    expect(await events.next()).toEqual({ done: true, value: undefined })
  })

  itInSandbox('kills by SIGKILL what does not end, after forceKillAfterDelay', async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const stubborn = `trap '' TERM; echo x; while :; do ${nap}; done`
    const stream = sandbox.execStream(['bash', '-c', stubborn], { forceKillAfterDelay: 100 })
    for await (const { type } of stream) if (type === 'stdout') break
    expect(proc.runs(nap)).toBe(false)
    expect((await stream.result).signal).toBe('SIGKILL')
  })

  itInSandbox('after the last event kills nothing', async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const stream = sandbox.execStream(`${nap} & echo hi`)
    for await (const { type } of stream) if (type === 'complete') break
    await holds(() => proc.runs(nap))
    expect(await stream.result).toMatchObject({ success: true, stdout: 'hi\n' })
  })

  itInSandbox('ends the command, however its reader leaves', async ({ sandbox, directory }) => {
    const nap = proc.uniqueSleep()
    const ways: Array<(stream: ExecStream) => Promise<void>> = [
      async (stream) => {
        for await (const line of stream.lines()) {
          expect(line).toBe('y')
          break
        }
      },
      async (stream) => {
        const reader = stream.toReadableStream().getReader()
        expect((await reader.read()).done).toBe(false)
        await reader.cancel()
      },
      (stream) => stream.toReadableStream().cancel('no more'),
      (stream) => stream[Symbol.asyncDispose](),
    ]
    for (const [index, leave] of ways.entries()) {
      const stream = sandbox.execStream(`touch begun-${index}; ${endless(nap)}`)
      await made(directory, `begun-${index}`)
      await leave(stream)
      expect(proc.runs(nap)).toBe(false)
    }
  })

  itInSandbox('a hundred streams in a row leaves nothing', async ({ sandbox }) => {
    for (let round = 0; round < 100; round++) {
      for await (const { type } of sandbox.execStream('while :; do echo x; done'))
        if (type === 'stdout') break
    }
  })
})
