import type { ExecEvent } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import { all, shapeOf, textOf } from '../helpers/stream.js'
import { until } from '../helpers/until.js'

describe('the events of execStream', () => {
  itInEveryMode('are the start, the output and the result', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo $$; echo err >&2; exit 3')
    const events = await all(stream)
    const result = await stream.result
    const pid = Number(result.stdout)
    expect(events[0]).toMatchObject({ type: 'start', command: result.command, pid, sessionId: 'default' })
    expect(
      events
        .slice(1, -1)
        .map(({ type }) => type)
        .sort(),
    ).toEqual(['stderr', 'stdout'])
    expect([textOf(events), textOf(events, 'stderr')]).toEqual([`${pid}\n`, 'err\n'])
    expect(events.at(-1)).toMatchObject({ type: 'complete', exitCode: 3, signal: null })
    expect((events.at(-1) as { result: unknown }).result).toBe(result)
    for (const { time } of events) expect(time).toBeInstanceOf(Date)
  })

  it('come while the command runs', () =>
    withSandbox(async ({ sandbox }) => {
      const other = await sandbox.createSession({ id: 'other' })
      const seen: string[] = []
      for await (const event of sandbox.execStream(
        'echo first; until [ -e go ]; do sleep 0.01; done; echo second',
      )) {
        if (event.type !== 'stdout') continue
        seen.push(event.data)
        if (seen.length === 1) await other.exec('touch go')
      }
      expect(seen).toEqual(['first\n', 'second\n'])
    }))

  it('have the output of a session’s own command and state', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession({ id: 'own', env: { A: 'x' } })
      await session.exec('B=y; cd /usr')
      const events = await all(session.execStream('echo $A $B; cd bin; A=z'))
      expect(events[0]).toMatchObject({ type: 'start', sessionId: 'own' })
      expect(textOf(events)).toBe('x y\n')
      expect((await session.exec('echo $A $PWD')).stdout).toBe('z /usr/bin\n')
    }))

  it('of commands in one session come one command after the other, in the order of the calls', () =>
    withSandbox(async ({ sandbox }) => {
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
    }))

  it('are bytes with encoding buffer', () =>
    withSandbox(async ({ sandbox }) => {
      const stream = sandbox.execStream("printf '\\0\\xff\\r\\n'", { encoding: 'buffer' })
      const [, event] = await all(stream)
      expect(event).toMatchObject({ type: 'stdout', cursor: 4 })
      expect([...(event as { data: Uint8Array }).data]).toEqual([0, 255, 13, 10])
      expect([...(await stream.result).stdout]).toEqual([0, 255, 13, 10])
    }))

  it('have whole characters, and cursors that count their bytes', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const wait = (name: string) =>
        `touch ${directory}/at-${name}; until [ -e ${name} ]; do sleep 0.01; done`
      const command = `printf 'a\\xe2'; ${wait('b')}; printf '\\x82'; printf e >&2; ${wait('c')}; printf '\\xac\\xff\\xc3'`
      const other = await sandbox.createSession({ id: 'other' })
      const seen: Array<[string, unknown, number]> = []
      for await (const event of sandbox.execStream(command)) {
        if (event.type !== 'stdout' && event.type !== 'stderr') continue
        seen.push([event.type, event.data, event.cursor])
        if (event.data === 'a') await other.exec('touch b')
        if (event.data === 'e') await other.exec('touch c')
      }
      expect(seen).toEqual([
        ['stdout', 'a', 1],
        ['stderr', 'e', 1],
        ['stdout', '€\ufffd', 5],
        ['stdout', '\ufffd', 6],
      ])
    }))

  it('join to exactly what was printed, of 30 MB too', () =>
    withSandbox(async ({ sandbox }) => {
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
    }))

  it('interleave both streams as they came', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const events: ExecEvent[] = []
      const other = await sandbox.createSession({ id: 'other' })
      const step = (name: string) => `until [ -e ${directory}/${name} ]; do sleep 0.01; done`
      const stream = sandbox.execStream(`echo 1; ${step('a')}; echo 2 >&2; ${step('b')}; echo 3`)
      for await (const event of stream) {
        events.push(event)
        if (textOf([event]) === '1\n') await other.exec('touch a')
        if (textOf([event], 'stderr') === '2\n') await other.exec('touch b')
      }
      expect(shapeOf(events)).toBe('start stdout stderr stdout complete')
      expect((await stream.result).all).toBe('1\n2\n3\n')
    }))

  it('put together what a command prints line by line', () =>
    withSandbox(async ({ sandbox }) => {
      const events = await all(sandbox.execStream('for i in {1..5000}; do echo $i; done'))
      expect(events.length).toBeLessThan(1000)
      expect(textOf(events)).toBe(Array.from({ length: 5000 }, (_, index) => `${index + 1}\n`).join(''))
    }))

  it('come with the output of an EXIT trap and of a shell that was killed', () =>
    withSandbox(async ({ sandbox }) => {
      const trapped = await all(sandbox.execStream("trap 'echo bye' EXIT; echo hi; exit 4"))
      expect(textOf(trapped)).toBe('hi\nbye\n')
      expect(trapped.at(-1)).toMatchObject({ type: 'complete', exitCode: 4 })
      const killed = await all(sandbox.execStream('echo last; kill -9 $$'))
      expect(shapeOf(killed)).toBe('start stdout complete')
      expect(killed.at(-1)).toMatchObject({
        exitCode: 137,
        signal: 'SIGKILL',
        result: { sessionRestarted: true },
      })
    }))

  it('end when the command ends, whatever its background processes still print', () =>
    withSandbox(async ({ sandbox, directory }) => {
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
    }))

  it('also go to the callbacks', () =>
    withSandbox(async ({ sandbox }) => {
      const seen: string[] = []
      const stream = sandbox.execStream('echo x', {
        onStart: ({ command }) => seen.push(`start ${command}`),
        onOutput: (from, data) => seen.push(`${from} ${data}`),
        onComplete: ({ exitCode }) => seen.push(`complete ${exitCode}`),
      })
      expect(shapeOf(await all(stream))).toBe('start stdout complete')
      expect(seen).toEqual(['start echo x', 'stdout x\n', 'complete 0'])
    }))
})
