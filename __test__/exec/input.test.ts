import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

async function* items(...values: Array<string | Uint8Array>) {
  yield* values
}

describe('input', () => {
  it('is at end of file immediately without the option', () =>
    withSandbox(async ({ sandbox }) => {
      expect((await sandbox.exec('cat; read x; echo $?')).stdout).toBe('1\n')
    }))

  it('can be text, bytes or nothing', () =>
    withSandbox(async ({ sandbox }) => {
      expect((await sandbox.exec('cat', { input: 'aü\n' })).stdout).toBe('aü\n')
      expect((await sandbox.exec('cat', { input: '' })).stdout).toBe('')
      const input = new Uint8Array([0, 255, 10])
      const { stdout } = await sandbox.exec('cat', { input, encoding: 'buffer' })
      expect([...stdout]).toEqual([0, 255, 10])
    }))

  it('can be a generator, a stream of Node or a stream of the web', () =>
    withSandbox(async ({ sandbox }) => {
      const sources = [
        items('one ', Buffer.from('two'), ''),
        Readable.from(['one ', 'two']),
        new Blob(['one two']).stream(),
      ]
      for (const input of sources) {
        expect((await sandbox.exec('cat', { input })).stdout).toBe('one two')
      }
    }))

  it('passes megabytes through, in order', () =>
    withSandbox(async ({ sandbox }) => {
      async function* numbered() {
        for (let block = 0; block < 64; block++) yield Buffer.alloc(65_536, block)
      }
      const { stdout } = await sandbox.exec('cat', { input: numbered(), encoding: 'buffer' })
      expect(stdout.length).toBe(64 * 65_536)
      expect(stdout.every((byte, index) => byte === Math.floor(index / 65_536))).toBe(true)
    }))

  it('is asked for the next item only when the command took the one before', () =>
    withSandbox(async ({ sandbox }) => {
      let asked = 0
      async function* endless() {
        for (;;) {
          asked++
          yield Buffer.alloc(65_536)
        }
      }
      const controller = new AbortController()
      const run = rejectionOf(sandbox.exec('sleep 60', { input: endless(), signal: controller.signal }))
      await until(
        () => asked >= 2 || undefined,
        () => `asked ${asked} times`,
      )
      controller.abort()
      await run
      expect(asked).toBeLessThan(50)
    }))

  it('is closed when the command ends first', () =>
    withSandbox(async ({ sandbox }) => {
      let closed = false
      async function* endless() {
        try {
          for (;;) yield 'y\n'
        } finally {
          closed = true
        }
      }
      expect((await sandbox.exec('head -n 1', { input: endless() })).stdout).toBe('y\n')
      await until(
        () => closed || undefined,
        () => 'the source was not closed',
      )
    }))

  it('does not hold up a command that ends while the source is stuck', () =>
    withSandbox(async ({ sandbox }) => {
      async function* stuck() {
        yield 'x\n'
        await new Promise(() => {})
      }
      expect((await sandbox.exec('read x; echo $x', { input: stuck() })).stdout).toBe('x\n')
    }))

  it('kills the command when the source throws, and rejects with that error', () =>
    withSandbox(async ({ sandbox }) => {
      const error = new Error('the source is broken')
      async function* broken() {
        yield 'x\n'
        throw error
      }
      expect(await rejectionOf(sandbox.exec('cat; sleep 60', { input: broken() }))).toBe(error)
    }))

  it('kills the command when an item is neither text nor bytes', () =>
    withSandbox(async ({ sandbox }) => {
      const input = items(5 as never)
      const rejection = await rejectionOf(sandbox.exec('cat; sleep 60', { input }))
      expect(rejection).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('input must give'),
      })
    }))

  it('is not read from a stream that is locked elsewhere, and nothing runs', () =>
    withSandbox(async ({ sandbox }) => {
      const input = new Blob(['x']).stream()
      input.getReader()
      expect(await rejectionOf(sandbox.exec('touch ran', { input }))).toBeInstanceOf(TypeError)
      expect((await sandbox.exec('ls')).stdout).not.toContain('ran')
    }))
})
