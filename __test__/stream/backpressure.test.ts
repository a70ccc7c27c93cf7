/** A reader that does not read holds the command back, and nothing else. */

import { describe, expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, shapeOf, textOf } from '../helpers/stream.js'
import { until } from '../helpers/until.js'

/** The most that a command may have printed beyond what its reader has read: a few full pipes and queues. */
const MOST_AHEAD = 16 * 1024 ** 2

/** Waits until a process with these words sleeps in write(2), and gives its pid. */
function blocked(words: string): Promise<number> {
  const isBlocked = ({ pid, state }: proc.ProcessEntry) => state === 'S' && proc.commandLine(pid) === words
  return until(
    async () => {
      const found = proc.descendants(process.pid).find(isBlocked)
      // Asleep, and still so a moment later: not between two pieces.
      if (found === undefined) return undefined
      const before = proc.statusNumber('voluntary_ctxt_switches', found.pid)
      await new Promise((resolve) => setTimeout(resolve, 30))
      return proc.statusNumber('voluntary_ctxt_switches', found.pid) === before ? found.pid : undefined
    },
    () => `${words} does not wait`,
  )
}

itInSandbox(
  'reading the property `result` of a stream does not change what happens to its output',
  async ({ sandbox }) => {
    const words = 'head -c 20000000 /dev/zero'
    const stream = sandbox.execStream(words)
    const { result } = stream
    expect(stream.result).toBe(result)
    expect(result).toBeInstanceOf(Promise)
    await blocked(words)
    const events = await all(stream)
    expect(textOf(events).length).toBe(20_000_000)
    expect(await result).toMatchObject({ success: true })
  },
)

itInEveryMode(
  'an unread stream blocks its command after a bounded output, and an abort works immediately',
  async ({ sandbox }) => {
    const controller = new AbortController()
    const words = `yes held back ${process.pid}`
    const stream = sandbox.execStream(words, { signal: controller.signal })
    const iterator = stream[Symbol.asyncIterator]()
    expect((await iterator.next()).value?.type).toBe('start')
    expect(proc.bytes('wchar', await blocked(words))).toBeLessThan(MOST_AHEAD)
    controller.abort()
    await expect(stream.result).rejects.toMatchObject({ code: 'ABORT_ERR' })
    expect(proc.runs(words)).toBe(false)
    const events = await all({ [Symbol.asyncIterator]: () => iterator })
    expect(shapeOf(events)).toBe('stdout error')
    expect(textOf(events)).toMatch(/^held back (\d+)\nheld back \1\n/)
  },
)

describe('a reader', () => {
  itInSandbox('that is slow gets every byte, while the command waits for it', async ({ sandbox }) => {
    let [length, ahead] = [0, 0]
    const size = 40_000_000
    const words = `head -c ${size} /dev/zero`
    let pid: number | undefined
    for await (const event of sandbox.execStream(words, { maxBuffer: 0 })) {
      if (event.type !== 'stdout') continue
      pid ??= await blocked(words)
      length += event.data.length
      if (length % 4 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
      ahead = Math.max(ahead, proc.bytes('wchar', pid) - length)
    }
    expect(length).toBe(size)
    expect(ahead).toBeGreaterThan(0)
    expect(ahead).toBeLessThan(MOST_AHEAD)
  })

  itInSandbox(
    'that does not read does not keep a command from ending in an orderly way when it is killed',
    async ({ sandbox, directory }) => {
      // Its handler prints more than the full pipe takes.
      const program = `trap 'echo bye; : >${directory}/said; exit' TERM; while :; do echo something to say; done`
      const stream = sandbox.execStream(['bash', '-c', program])
      const iterator = stream[Symbol.asyncIterator]()
      await iterator.next()
      await blocked(`bash -c ${program}`)
      expect(await stream.kill()).toBe(true)
      expect(await sandbox.exec('ls')).toMatchObject({ stdout: 'said\n' })
      const { stdout, signal, truncated } = await stream.result
      expect([signal, stdout.endsWith('\nbye\n'), truncated]).toEqual(['SIGTERM', true, null])
      const read = textOf(await all({ [Symbol.asyncIterator]: () => iterator }))
      expect(stdout.startsWith(read)).toBe(true)
    },
  )

  itInSandbox('that reads gets what a command prints while it is being killed', async ({ sandbox }) => {
    const program =
      "trap 'for i in 1 2 3; do echo $i; sleep 0.02; done; exit' TERM; echo ready; while :; do sleep 0.01; done"
    const stream = sandbox.execStream(['bash', '-c', program])
    let read = ''
    for await (const event of stream) {
      if (event.type === 'stdout') read += event.data
      if (read === 'ready\n') void stream.kill()
    }
    expect(read).toBe('ready\n1\n2\n3\n')
  })
})
