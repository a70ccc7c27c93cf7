import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, textOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('the result of a stream', () => {
  itInSandbox('comes although nothing reads, and what it keeps is head and tail', async ({ sandbox }) => {
    const result = await sandbox.execStream('seq 3000000').result
    const whole = 22_888_896
    const missing = result.truncated?.stdout ?? 0
    expect(missing).toBeGreaterThanOrEqual(whole - 8 * 1024 * 1024)
    const marker = `\n[${missing.toLocaleString('en-US')} bytes omitted]\n`
    expect(result.stdout.length).toBe(whole - missing + marker.length - 1)
    expect(result.stdout).toContain(marker)
    expect(result.stdout.startsWith('1\n2\n')).toBe(true)
    expect(result.stdout.endsWith('\n2999999\n3000000\n')).toBe(true)
  })

  itInSandbox('can be awaited before the output is read, while the command runs', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo a; read line; echo b >&2', { input: later('x\n') })
    const result = stream.result.then(({ stdout, stderr }) => [stdout, stderr])
    const events = await all(stream)
    expect([textOf(events), textOf(events, 'stderr'), events.at(-1)?.type]).toEqual([
      'a\n',
      'b\n',
      'complete',
    ])
    expect(await result).toEqual(['a\n', 'b\n'])
  })

  itInSandbox('was awaited first, so output was dropped, and reading throws', async ({ sandbox }) => {
    const short = sandbox.execStream('echo a')
    expect(await short.result).toMatchObject({ stdout: 'a\n' })
    const stream = sandbox.execStream('head -c 20000000 /dev/zero')
    const early = sandbox.execStream('head -c 20000000 /dev/zero')
    const lines = early.lines()
    await stream.result
    await early.result
    const locked = { name: 'OptionError', code: 'STREAM_LOCKED', message: /result.*was awaited/ }
    for (const reading of [all(short), all(stream), all(lines)]) {
      const { name, code, message } = (await rejectionOf(reading)) as Error & { code?: string }
      expect({ name, code }).toEqual({ name: locked.name, code: locked.code })
      expect(message).toMatch(locked.message)
    }
  })

  itInSandbox(
    'was awaited after the end of the command, so reading throws, however much was printed',
    async ({ sandbox }) => {
      const ended = async (command: string) => {
        let completed = () => {}
        const end = new Promise<void>((resolve) => {
          completed = resolve
        })
        const stream = sandbox.execStream(command, { onComplete: completed })
        await end
        // Its events are complete then, too.
        await new Promise((resolve) => setImmediate(resolve))
        return stream
      }
      for (const command of ['true', 'echo a', 'seq 1000']) {
        const stream = await ended(command)
        await stream.result
        expect(await rejectionOf(all(stream)), command).toMatchObject({ code: 'STREAM_LOCKED' })
        const read = await ended(command)
        const { stdout } = await read.result.then((result) => result)
        expect(await rejectionOf(all(read)), command).toMatchObject({ code: 'STREAM_LOCKED' })
        // A reader that starts in the same step has all output.
        const both = await ended(command)
        const [events] = await Promise.all([all(both), both.result])
        expect(textOf(events)).toBe(stdout)
        const reversed = await ended(command)
        const [, later] = await Promise.all([reversed.result, all(reversed)])
        expect(textOf(later)).toBe(stdout)
      }
    },
  )

  it('that rejects is no unhandled rejection, read or not', async () => {
    const host = startHost(`
      process.on('unhandledRejection', (error) => print('unhandled ' + error.code))
      const sandbox = new Sandbox()
      const run = async () => {
        for await (const event of sandbox.execStream('exit 3', { check: true })) print(event.type)
        const stream = sandbox.execStream('exit 3', { check: true })
        stream.result
        for await (const event of stream) print(event.type)
        sandbox.execStream('exit 3', { check: true })
        await sandbox.exec('true')
        setTimeout(() => print('end'), 20)
      }
      run()
    `)
    expect(await host.ended()).toBe(0)
    expect(host.output().split('\n')).toEqual(['start', 'error', 'start', 'error', 'end', ''])
  })
})

async function* later(text: string): AsyncGenerator<string> {
  await new Promise((resolve) => setImmediate(resolve))
  yield text
}
