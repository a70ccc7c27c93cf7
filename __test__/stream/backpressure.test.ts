/** A reader that does not read holds the command back, and nothing else. */
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { collect } from '../helpers/memory.js'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { notAStall } from '../helpers/stall.js'
import { all, shapeOf, textOf } from '../helpers/stream.js'
import { until } from '../helpers/until.js'

const MB = 1024

/** What this process uses, in kB. */
const memory = () => proc.statusNumber('VmRSS')

/** The same without the garbage. */
function memoryInUse(): number {
  collect()
  return memory()
}

/** Waits until a process with these words sleeps in write(2), and gives its pid. */
function blocked(words: string): Promise<number> {
  const isBlocked = ({ pid, state }: proc.ProcessEntry) => state === 'S' && proc.commandLine(pid) === words
  return until(
    async () => {
      const found = proc.listProcesses().find(isBlocked)
      // Asleep, and still so a moment later: not between two pieces.
      if (found === undefined) return undefined
      const before = proc.statusNumber('voluntary_ctxt_switches', found.pid)
      await new Promise((resolve) => setTimeout(resolve, 30))
      return proc.statusNumber('voluntary_ctxt_switches', found.pid) === before ? found.pid : undefined
    },
    () => `${words} does not wait`,
    10_000,
  )
}

it('reading the property `result` of a stream does not change what happens to its output', () =>
  withSandbox(async ({ sandbox }) => {
    const words = 'head -c 20000000 /dev/zero'
    const stream = sandbox.execStream(words)
    const { result } = stream
    expect(stream.result).toBe(result)
    expect(result).toBeInstanceOf(Promise)
    await blocked(words)
    const events = await all(stream)
    expect(notAStall(() => textOf(events).length)).toBe(20_000_000)
    expect(await result).toMatchObject({ success: true })
  }))

itInEveryMode(
  'an unread stream blocks its command with flat memory, and an abort works immediately',
  async ({ sandbox }) => {
    const controller = new AbortController()
    const words = 'yes held back'
    const before = memoryInUse()
    const stream = sandbox.execStream(words, { signal: controller.signal })
    const iterator = stream[Symbol.asyncIterator]()
    expect((await iterator.next()).value?.type).toBe('start')
    await blocked(words)
    expect(memoryInUse() - before).toBeLessThan(32 * MB)
    const begun = performance.now()
    controller.abort()
    await expect(stream.result).rejects.toMatchObject({ code: 'ABORT_ERR' })
    expect(performance.now() - begun).toBeLessThan(1000)
    expect(proc.runs(words)).toBe(false)
    const events = await all({ [Symbol.asyncIterator]: () => iterator })
    expect(shapeOf(events)).toBe('stdout error')
    expect(textOf(events).startsWith('held back\nheld back\n')).toBe(true)
  },
  { mayStall: true },
)

describe('a reader', () => {
  it('that is slow gets every byte, while the command waits for it', () =>
    withSandbox(
      async ({ sandbox }) => {
        const before = memoryInUse()
        const limit = before + 64 * MB
        let [length, most] = [0, 0]
        const size = 40_000_000
        for await (const event of sandbox.execStream(`head -c ${size} /dev/zero`, { maxBuffer: 0 })) {
          if (event.type !== 'stdout') continue
          length += event.data.length
          if (length % 4 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
          most = Math.max(most, memory() < limit ? 0 : memoryInUse())
        }
        expect(length).toBe(size)
        expect(most).toBeLessThan(limit)
      },
      { mayStall: true },
    ))

  it('that stops reading holds the session back, until it goes on', () =>
    withSandbox(
      async ({ sandbox }) => {
        const words = 'head -c 30000000 /dev/zero'
        const iterator = sandbox.execStream(words)[Symbol.asyncIterator]()
        await iterator.next()
        const order: string[] = []
        const next = sandbox.exec('true').then(() => order.push('next'))
        await blocked(words)
        order.push('goes on')
        await all({ [Symbol.asyncIterator]: () => iterator })
        await next
        expect(order).toEqual(['goes on', 'next'])
      },
      { mayStall: true },
    ))

  it('that does not read does not keep a command from ending in an orderly way when it is killed', () =>
    withSandbox(
      async ({ sandbox, directory }) => {
        // Its handler prints more than the full pipe takes.
        const program = `trap 'echo bye; : >${directory}/said; exit' TERM; while :; do echo something to say; done`
        const stream = sandbox.execStream(['bash', '-c', program])
        const iterator = stream[Symbol.asyncIterator]()
        await iterator.next()
        await blocked(`bash -c ${program}`)
        const begun = performance.now()
        expect(await stream.kill()).toBe(true)
        expect(performance.now() - begun).toBeLessThan(3000)
        expect(await sandbox.exec('ls')).toMatchObject({ stdout: 'said\n' })
        const { stdout, signal, truncated } = await stream.result
        expect([signal, stdout.endsWith('\nbye\n'), truncated]).toEqual(['SIGTERM', true, null])
        const read = textOf(await all({ [Symbol.asyncIterator]: () => iterator }))
        expect(stdout.startsWith(read)).toBe(true)
      },
      { mayStall: true },
    ))

  it('that reads gets what a command prints while it is being killed', () =>
    withSandbox(async ({ sandbox }) => {
      const program =
        "trap 'for i in 1 2 3; do echo $i; sleep 0.02; done; exit' TERM; echo ready; while :; do sleep 0.01; done"
      const stream = sandbox.execStream(['bash', '-c', program])
      let read = ''
      for await (const event of stream) {
        if (event.type === 'stdout') read += event.data
        if (read === 'ready\n') stream.kill()
      }
      expect(read).toBe('ready\n1\n2\n3\n')
    }))

  it('of two concurrent streams holds back only the unread one', () =>
    withSandbox(
      async ({ sandbox }) => {
        const other = await sandbox.createSession({ id: 'other' })
        const held = sandbox.execStream('yes')[Symbol.asyncIterator]()
        await held.next()
        await blocked('yes')
        const events = await all(other.execStream('seq 200000'))
        expect(textOf(events).endsWith('\n199999\n200000\n')).toBe(true)
        await held.return?.()
      },
      { mayStall: true },
    ))
})
