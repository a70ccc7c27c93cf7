import { existsSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Counts the listeners on a signal. */
function counted(signal: AbortSignal): () => number {
  let listeners = 0
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = (...parameters: Parameters<typeof add>) => {
    listeners++
    add(...parameters)
  }
  signal.removeEventListener = (...parameters: Parameters<typeof remove>) => {
    listeners--
    remove(...parameters)
  }
  return () => listeners
}

describe('an abort', () => {
  it('of a running command kills it and rejects with the reason and the output so far', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const controller = new AbortController()
      const { signal } = controller
      const run = rejectionOf(sandbox.exec('echo before; touch started; sleep 60; touch after', { signal }))
      await until(
        () => existsSync(path.join(directory, 'started')) || undefined,
        () => 'the command did not start',
      )
      const reason = new Error('enough')
      controller.abort(reason)
      const rejection = await run
      expect(rejection).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR', cause: reason })
      expect(rejection).toMatchObject({ result: { stdout: 'before\n', cancelled: true, success: false } })
      expect(existsSync(path.join(directory, 'after'))).toBe(false)
    }))

  it('of a command that reads a file leaves nothing of the file for the next `read`', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec("head -c 100000000 /dev/zero | tr '\\0' x > long; echo fresh > next")
      const stream = sandbox.execStream('echo on; read -r line < long')
      for await (const event of stream) if (event.type === 'stdout') await stream.kill()
      // bash reads ahead in files, and not in pipes.
      const command = 'read -r line < next; echo "$line"'
      const process = await sandbox.startProcess(command)
      await process.wait()
      expect((await process.getLogs()).stdout).toBe('fresh\n')
      const next = await sandbox.exec(command)
      expect([next.stdout, next.sessionRestarted]).toEqual(['fresh\n', false])
    }))

  it('in the same tick as the call ends it, whether it had started or not', () =>
    withSandbox(async ({ sandbox }) => {
      const controller = new AbortController()
      const run = rejectionOf(sandbox.exec('sleep 60', { signal: controller.signal }))
      controller.abort()
      const rejection = await run
      expect(rejection).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR' })
      expect(rejection.cause).toBe(controller.signal.reason)
    }))

  it('of a command in the queue keeps it from running', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const first = new AbortController()
      const second = new AbortController()
      const running = rejectionOf(sandbox.exec('touch started; sleep 60', { signal: first.signal }))
      const queued = rejectionOf(sandbox.exec('touch ran', { signal: second.signal }))
      await until(
        () => existsSync(path.join(directory, 'started')) || undefined,
        () => 'the command did not start',
      )
      second.abort()
      const rejection = await queued
      expect(rejection).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR' })
      expect('result' in rejection).toBe(false)
      first.abort()
      await running
      expect(existsSync(path.join(directory, 'ran'))).toBe(false)
    }))

  it('of a command in the queue leaves the timeout and the output of the running one', () =>
    withSandbox(async ({ sandbox }) => {
      const queue = () => {
        const controller = new AbortController()
        const queued = rejectionOf(sandbox.exec('true', { signal: controller.signal }))
        controller.abort()
        return queued
      }
      const running = rejectionOf(sandbox.exec('sleep 60', { timeout: 300 }))
      expect((await queue()).name).toBe('AbortError')
      expect(await running).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      const printing = sandbox.exec('head -c 3000000 /dev/zero', { encoding: 'buffer', timeout: 10_000 })
      expect((await queue()).name).toBe('AbortError')
      expect((await printing).stdout).toHaveLength(3_000_000)
    }))

  it('after the end has no effect, and leaves no listener', () =>
    withSandbox(async ({ sandbox }) => {
      const controller = new AbortController()
      const listeners = counted(controller.signal)
      expect((await sandbox.exec('echo x', { signal: controller.signal })).stdout).toBe('x\n')
      expect(listeners()).toBe(0)
      controller.abort()
      expect((await sandbox.exec('echo y')).stdout).toBe('y\n')
    }))

  it('leaves the session as it was', () =>
    withSandbox(async ({ sandbox, directory }) => {
      await sandbox.exec('x=1; f() { echo f; }; mkdir sub; cd sub')
      const controller = new AbortController()
      const { signal } = controller
      const run = rejectionOf(sandbox.exec('x=2; touch started; sleep 60', { signal }))
      await until(
        () => existsSync(path.join(directory, 'sub/started')) || undefined,
        () => 'it did not start',
      )
      controller.abort()
      await run
      expect((await sandbox.exec('echo $x; f; pwd')).stdout).toBe(`2\nf\n${directory}/sub\n`)
    }))

  it('with AbortSignal.timeout has its TimeoutError as the cause', () =>
    withSandbox(async ({ sandbox }) => {
      const rejection = await rejectionOf(sandbox.exec('sleep 60', { signal: AbortSignal.timeout(50) }))
      expect(rejection.name).toBe('AbortError')
      expect((rejection.cause as Error).name).toBe('TimeoutError')
    }))
})
