import { describe, expect } from 'vitest'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, textOf } from '../helpers/stream.js'
import { until } from '../helpers/until.js'

describe('the events of execStream', () => {
  itInSandbox(
    'of commands in one session come one command after the other, in the order of the calls',
    async ({ sandbox }) => {
      // Readers take their events when each has its turn; callbacks are called when something comes.
      const order: string[] = []
      const callbacks = (name: string) => ({
        onStart: () => order.push(`${name} start`),
        onOutput: (type: string) => order.push(`${name} ${type}`),
        onComplete: () => order.push(`${name} complete`),
      })
      const read = async (name: string) => {
        const events = await all(sandbox.execStream(`sleep 0.02; echo ${name}`, callbacks(name)))
        return events.map(({ type }) => `${name} ${type}`)
      }
      const reads = [read('a'), read('b')]
      const exec = sandbox.exec('true', { onComplete: () => order.push('exec') })
      reads.push(read('c'))
      const of = (name: string) => [`${name} start`, `${name} stdout`, `${name} complete`]
      expect(await Promise.all(reads)).toEqual(['a', 'b', 'c'].map(of))
      await exec
      expect(order).toEqual([...of('a'), ...of('b'), 'exec', ...of('c')])
    },
  )

  itInSandbox('join to exactly what was printed, in few pieces', async ({ sandbox }) => {
    const whole = Buffer.alloc(30_000_001, 'aü€\u{1f41a}\n').subarray(0, 30_000_001)
    const command = `yes 'aü€\u{1f41a}' | head -c ${whole.length}`
    for (const encoding of ['utf8', 'buffer'] as const) {
      const parts: Buffer[] = []
      let cursor = 0
      for await (const event of sandbox.execStream(command, { encoding })) {
        if (event.type !== 'stdout') continue
        parts.push(Buffer.from(event.data as string))
        if (encoding === 'buffer') expect(event.cursor).toBe(cursor + event.data.length)
        cursor = event.cursor
      }
      expect(cursor).toBe(whole.length)
      const text = whole.toString()
      expect(Buffer.concat(parts).toString() === text).toBe(true)
    }
    const lines = await all(sandbox.execStream('for i in {1..5000}; do echo $i; done'))
    expect(lines.length).toBeLessThan(1000)
    expect(textOf(lines)).toBe(Array.from({ length: 5000 }, (_, index) => `${index + 1}\n`).join(''))
  })

  itInSandbox(
    'end when the command ends, whatever its background processes still print',
    async ({ sandbox, directory }) => {
      const events = await all(
        sandbox.execStream('(until [ -e go ]; do sleep 0.01; done; echo late; touch told) & echo hi'),
      )
      expect(textOf(events)).toBe('hi\n')
      const next = await all(
        sandbox.execStream('touch go; until [ -e told ]; do sleep 0.01; done; echo next'),
      )
      expect(textOf(next)).toBe('next\n')
      await until(
        async () => ((await sandbox.exec(`jobs -r`)).stdout === '' ? true : undefined),
        () => `the job of ${directory} runs on`,
      )
    },
  )
})
