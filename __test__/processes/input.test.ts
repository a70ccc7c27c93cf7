import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

async function outputOf(process: { wait(): Promise<unknown>; getLogs(): Promise<{ stdout: string }> }) {
  await process.wait()
  return (await process.getLogs()).stdout
}

describe('the input of a process', () => {
  itInEveryMode('is the given input, or end of file', async ({ sandbox }) => {
    expect(await outputOf(await sandbox.startProcess('cat; echo end'))).toBe('end\n')
    expect(await outputOf(await sandbox.startProcess('cat', { input: 'text\n' }))).toBe('text\n')
    const large = Buffer.alloc(300_000, 'x')
    expect((await outputOf(await sandbox.startProcess('wc -c', { input: large }))).trim()).toBe('300000')
    const stream = new Blob(['from a ', 'stream']).stream()
    expect(await outputOf(await sandbox.startProcess('cat', { input: stream }))).toBe('from a stream')
  })

  itInEveryMode('that is a pipe takes writes until it is closed', async ({ sandbox }) => {
    const process = await sandbox.startProcess('while read -r line; do echo "got $line"; done; echo end', {
      input: 'pipe',
    })
    await process.write('one\n')
    await process.waitForLog('got one')
    await process.write(Buffer.from('two\n'))
    await process.closeInput()
    await process.closeInput()
    expect(await outputOf(process)).toBe('got one\ngot two\nend\n')
  })

  it('that is a pipe holds back a writer that is faster than the process', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('while [ ! -e go ]; do sleep 0.01; done; wc -c', {
        input: 'pipe',
      })
      let written = 0
      const writing = (async () => {
        for (; written < 10; written++) await process.write(Buffer.alloc(50_000))
      })()
      await until(
        () => written > 0 || undefined,
        () => 'nothing was taken',
      )
      expect(written).toBeLessThan(10)
      await sandbox.exec('touch go')
      await writing
      await process.closeInput()
      expect((await outputOf(process)).trim()).toBe('500000')
    }))

  it('rejects writes after its end', () =>
    withSandbox(async ({ sandbox }) => {
      const closed = await sandbox.startProcess('sleep 60', { input: 'pipe' })
      await closed.closeInput()
      expect(await rejectionOf(closed.write('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
      const ended = await sandbox.startProcess('true', { input: 'pipe' })
      await ended.wait()
      expect(await rejectionOf(ended.write('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
      await ended.closeInput()
    }))

  it("can be written to only with input: 'pipe', and takes text and bytes only", () =>
    withSandbox(async ({ sandbox }) => {
      const without = await sandbox.startProcess('sleep 60')
      const refused = [without.write('x'), without.closeInput()].map(rejectionOf)
      for (const error of await Promise.all(refused)) {
        expect(error).toMatchObject({ code: 'INVALID_OPTION', name: 'OptionError' })
        expect(error.message).toContain("needs a process that was started with input: 'pipe'")
      }
      const piped = await sandbox.startProcess('cat', { input: 'pipe' })
      expect(await rejectionOf(piped.write(5 as never))).toMatchObject({ code: 'INVALID_OPTION' })
    }))

  it('from an iterable that throws kills the process and calls onError', () =>
    withSandbox(async ({ sandbox }) => {
      const error = new Error('the source is dry')
      const errors: unknown[] = []
      async function* source() {
        yield 'one\n'
        throw error
      }
      const process = await sandbox.startProcess('cat; sleep 60', {
        input: source(),
        onError: (reported) => errors.push(reported),
      })
      expect(await process.wait()).toMatchObject({ reason: 'killed' })
      expect(errors).toEqual([error])
    }))

  it('from an iterable is let go of when the process ends', () =>
    withSandbox(async ({ sandbox }) => {
      let closed = false
      async function* source() {
        try {
          for (;;) yield 'y\n'
        } finally {
          closed = true
        }
      }
      const process = await sandbox.startProcess('head -1', { input: source() })
      expect(await outputOf(process)).toBe('y\n')
      await until(
        () => closed || undefined,
        () => 'the source is still open',
      )
      expect(process.state).toBe('exited')
    }))
})

describe('stats', () => {
  it('cover the whole tree', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60 & while :; do :; done')
      const stats = await until(
        async () => {
          const now = await process.stats()
          return now.cpuTime > 0 && now.pids >= 2 ? now : undefined
        },
        () => 'no processor time was used',
      )
      expect(stats.memory).toBeGreaterThan(100_000)
      expect(stats.memoryPeak).toBeGreaterThanOrEqual(stats.memory)
      expect(stats.ioRead).toBeGreaterThanOrEqual(0)
      expect(stats.ioWrite).toBeGreaterThanOrEqual(0)
      await process.kill()
      expect(await rejectionOf(process.stats())).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    }))
})
