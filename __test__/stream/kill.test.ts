import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { all, made, shapeOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

itInEveryMode('kill ends the whole tree, and the stream with complete', async ({ sandbox, directory }) => {
  const [job, nap] = [proc.uniqueSleep(), proc.uniqueSleep()]
  await sandbox.exec(`x=1; ${job} &`)
  await proc.untilRuns(job)
  const stream = sandbox.execStream(`x=2; (setsid ${nap} &); touch begun; ${nap}; touch never`)
  const reading = all(stream)
  await made(directory, 'begun')
  expect(await stream.kill()).toBe(true)
  expect(proc.runs(nap)).toBe(false)
  expect(proc.runs(job)).toBe(true)
  const events = await reading
  expect(shapeOf(events)).toBe('start complete')
  expect(events.at(-1)).toMatchObject({ exitCode: null, signal: 'SIGTERM', result: { cancelled: true } })
  expect((await sandbox.exec('echo $x; ls')).stdout).toBe('2\nbegun\n')
})

describe('kill', () => {
  it('takes a signal, by name or number', () =>
    withSandbox(async ({ sandbox, directory }) => {
      for (const signal of ['SIGINT', 9] as const) {
        const stream = sandbox.execStream(`touch begun-${signal}; sleep 60`)
        await made(directory, `begun-${signal}`)
        expect(await stream.kill(signal)).toBe(true)
        expect((await stream.result).signal).toBe(signal === 9 ? 'SIGKILL' : signal)
      }
    }))

  it('refuses what is no signal, and the command runs on', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const stream = sandbox.execStream('touch begun; until [ -e go ]; do sleep 0.01; done; echo done')
      await made(directory, 'begun')
      for (const signal of ['SIGFOO', 0, 99, null]) {
        const rejection = await rejectionOf(stream.kill(signal as never))
        expect(rejection).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
        expect(rejection.message).toContain('signal')
      }
      await sandbox.createSession({ id: 'other' }).then((other) => other.exec('touch go'))
      expect((await stream.result).stdout).toBe('done\n')
    }))

  it('of a command that has ended is false, and changes nothing', () =>
    withSandbox(async ({ sandbox }) => {
      const stream = sandbox.execStream('exit 3')
      const result = await stream.result
      expect(await stream.kill()).toBe(false)
      expect(result).toMatchObject({ exitCode: 3, cancelled: false })
      expect(await stream.result).toBe(result)
    }))

  it('twice is one kill', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const stream = sandbox.execStream('touch begun; sleep 60')
      await made(directory, 'begun')
      expect(await Promise.all([stream.kill(), stream.kill('SIGINT')])).toEqual([true, true])
      expect((await stream.result).signal).toBe('SIGTERM')
    }))

  it('with SIGKILL cuts the delay of an earlier one short', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const nap = proc.uniqueSleep()
      const program = `trap '' TERM; touch begun; while :; do ${nap}; done`
      const stream = sandbox.execStream(['bash', '-c', program], { forceKillAfterDelay: 1_000_000 })
      await made(directory, 'begun')
      const first = stream.kill()
      expect(await stream.kill('SIGKILL')).toBe(true)
      expect(await first).toBe(true)
      expect(proc.runs(nap)).toBe(false)
      expect((await stream.result).signal).toBe('SIGKILL')
    }))

  it('before the command had its turn keeps it from running', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const first = sandbox.execStream('touch begun; until [ -e go ]; do sleep 0.01; done')
      const second = sandbox.execStream('touch ran')
      await made(directory, 'begun')
      expect(await second.kill()).toBe(true)
      const events = await all(second)
      expect(shapeOf(events)).toBe('complete')
      const now = Date.now()
      expect(now - (await second.result).startedAt.getTime()).toBeLessThan(10_000)
      await first.kill()
      expect((await sandbox.exec('ls')).stdout).toBe('begun\n')
    }))

  it('is a failure for check', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const stream = sandbox.execStream('touch begun; sleep 60', { check: true })
      await made(directory, 'begun')
      await stream.kill()
      const rejection = await rejectionOf(stream.result)
      expect(rejection).toMatchObject({
        code: 'COMMAND_FAILED',
        message: expect.stringContaining('ended by SIGTERM'),
      })
    }))

  it('after an abort is still an abort', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const controller = new AbortController()
      const stream = sandbox.execStream('touch begun; sleep 60', { signal: controller.signal })
      await made(directory, 'begun')
      controller.abort()
      expect(await stream.kill()).toBe(true)
      expect(await rejectionOf(stream.result)).toMatchObject({ code: 'ABORT_ERR' })
    }))

  it('before an abort stays a kill', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const controller = new AbortController()
      const stream = sandbox.execStream('touch begun; sleep 60', { signal: controller.signal })
      await made(directory, 'begun')
      const killed = stream.kill()
      controller.abort()
      expect(await killed).toBe(true)
      expect(await stream.result).toMatchObject({ signal: 'SIGTERM', cancelled: true })
    }))
})
