import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import * as proc from '../helpers/proc.js'
import { all, made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('toReadableStream', () => {
  it('has the bytes of stdout, of stderr, or of both', () =>
    withSandbox(async ({ sandbox }) => {
      const read = (from?: 'stdout' | 'stderr' | 'all') =>
        new Response(
          sandbox.execStream("printf 'o\\xff'; echo e >&2").toReadableStream({ from }),
        ).arrayBuffer()
      expect([...new Uint8Array(await read())]).toEqual([0x6f, 0xff])
      expect(Buffer.from(await read('stderr')).toString()).toBe('e\n')
      expect((await read('all')).byteLength).toBe(4)
    }))

  it('is what a Response can be made of, in megabytes too', () =>
    withSandbox(async ({ sandbox }) => {
      const response = new Response(sandbox.execStream('seq 1000000').toReadableStream())
      const text = await response.text()
      expect(text.length).toBe(6_888_896)
      expect(text.endsWith('\n999999\n1000000\n')).toBe(true)
    }))

  it('is iterable, and closes when the command has ended, whatever its code', () =>
    withSandbox(async ({ sandbox }) => {
      const chunks = await all(sandbox.execStream('echo x; exit 3').toReadableStream())
      expect(Buffer.concat(chunks).toString()).toBe('x\n')
    }))

  it('reads nothing before it is read', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const stream = sandbox.execStream('touch begun; yes')
      const readable = stream.toReadableStream()
      await made(directory, 'begun')
      await stream.kill()
      const text = await new Response(readable).text()
      const { stdout } = await stream.result
      expect(stdout.startsWith(text)).toBe(true)
    }))

  it('fails with the error of the run', () =>
    withSandbox(async ({ sandbox }) => {
      const controller = new AbortController()
      const stream = sandbox.execStream('echo x; sleep 60', { signal: controller.signal })
      const reader = stream.toReadableStream().getReader()
      expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('x\n')
      controller.abort()
      const rejection = await rejectionOf(reader.read())
      expect(rejection).toMatchObject({ code: 'ABORT_ERR' })
      expect(await rejectionOf(stream.result)).toBe(rejection)
    }))

  it('can be the input of another command', () =>
    withSandbox(async ({ sandbox }) => {
      const other = await sandbox.createSession({ id: 'other' })
      const input = sandbox.execStream('seq 1000').toReadableStream()
      expect((await other.exec('tail -1', { input })).stdout).toBe('1000\n')
    }))

  it('ends the command when it is cancelled', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const nap = proc.uniqueSleep()
      const readable = sandbox.execStream(`touch begun; ${nap}`).toReadableStream()
      await made(directory, 'begun')
      await readable.cancel('no more')
      expect(proc.runs(nap)).toBe(false)
    }))
})
