import { setImmediate } from 'node:timers/promises'
import type { LogEvent, Process } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Everything that an iteration gives. */
async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const event of events) list.push(event)
  return list
}

const text = (events: LogEvent[]) => events.map((event) => ('data' in event ? event.data : '')).join('')

/** A process that prints a line for each line of its input. */
const echoes = 'while read -r line; do echo "$line"; done'

describe('output', () => {
  itInEveryMode('replays, goes on live, and ends with the end of the process', async ({ sandbox }) => {
    const process = await sandbox.startProcess(`echo begun; ${echoes}; echo last >&2; exit 3`, {
      input: 'pipe',
    })
    await process.waitForLog('begun')
    const events = process.output()
    expect(await events.next()).toMatchObject({ value: { type: 'stdout', data: 'begun\n', cursor: 6 } })
    const next = events.next()
    await process.write('live\n')
    expect(await next).toMatchObject({ value: { type: 'stdout', data: 'live\n', cursor: 11 } })
    await process.closeInput()
    const rest = await all(events)
    expect(rest).toMatchObject([
      { type: 'stderr', data: 'last\n', cursor: 16 },
      { type: 'exit', exitCode: 3, signal: null, reason: 'exit' },
    ])
    expect(await events.next()).toEqual({ done: true, value: undefined })
    for (const { time } of rest) expect(Math.abs(Date.now() - time.getTime())).toBeLessThan(60_000)
  })

  it('gives the same to readers that come at any time, each at its own pace', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('for ((i = 0; i < 20000; i++)); do echo line $i; done')
      const expected = Array.from({ length: 20_000 }, (_, index) => `line ${index}\n`).join('')
      const early = all(process.output())
      const slow = (async () => {
        let seen = ''
        for await (const event of process.output()) {
          if ('data' in event) seen += event.data
          await setImmediate()
        }
        return seen
      })()
      await process.waitForLog('line 1000')
      const late = all(sandbox.streamProcessLogs(process.id))
      await process.wait()
      const after = all(process.output())
      for (const events of [early, late, after]) expect(text(await events) === expected).toBe(true)
      expect((await slow) === expected).toBe(true)
      expect((await process.getLogs()).stdout === expected).toBe(true)
    }))

  it('goes on from the cursor of any event, without a gap or a duplicate', () =>
    withSandbox(async ({ sandbox }) => {
      const command =
        "printf 'a\\xe2'; read -r _; echo -n b >&2; read -r _; printf '\\x82\\xacc'; read -r _; echo d"
      const process = await sandbox.startProcess(command, { input: 'pipe' })
      const live: LogEvent[] = []
      for await (const event of process.output()) {
        live.push(event)
        // Each piece is printed when the one before has come: only then is their order sure.
        if ('data' in event && event.data !== 'd\n') await process.write('\n')
      }
      expect(text(live)).toBe('ab€cd\n')
      for (const [index, event] of live.entries()) {
        if (!('cursor' in event)) continue
        const rest = await all(process.output({ cursor: event.cursor }))
        expect([text(rest), rest.at(-1)]).toEqual([text(live.slice(index + 1)), live.at(-1)])
      }
      // What came in quick succession is one event from now on.
      const events = await all(process.output())
      expect([text(events), events.at(-1)]).toEqual([text(live), live.at(-1)])
      for (const [index, event] of events.entries()) {
        if (!('cursor' in event)) continue
        const rest = await all(process.output({ cursor: event.cursor }))
        expect(rest.map(({ time, ...known }) => known)).toEqual(
          events.slice(index + 1).map(({ time, ...known }) => known),
        )
      }
      const beyond = await all(process.output({ cursor: 1_000_000 }))
      expect(beyond.map(({ type }) => type)).toEqual(['exit'])
    }))

  it('gives bytes exactly, and the same as text with characters kept whole', () =>
    withSandbox(async ({ sandbox }) => {
      const command = "printf '\\xe2'; sleep 0.03; printf '\\x82\\xac\\0\\r\\n\\xff\\xc3'"
      const process = await sandbox.startProcess(command)
      const bytes = await all(process.output({ encoding: 'buffer' }))
      const pieces = bytes.flatMap((event) => ('data' in event ? [event.data] : []))
      expect(Buffer.concat(pieces)).toEqual(Buffer.from([0xe2, 0x82, 0xac, 0, 13, 10, 0xff, 0xc3]))
      expect(text(await all(process.output()))).toBe('€\0\r\n\ufffd\ufffd')
      const logs = await process.getLogs({ encoding: 'buffer' })
      expect(Buffer.from(logs.stdout)).toEqual(Buffer.concat(pieces))
      expect((await process.getLogs()).stdout).toBe('€\0\r\n\ufffd\ufffd')
    }))

  it('that is not followed ends with the output so far', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(`echo one; ${echoes}`, { input: 'pipe' })
      await process.waitForLog('one')
      expect((await all(process.output({ follow: false }))).map(({ type }) => type)).toEqual(['stdout'])
      expect(await all(process.output({ follow: false, cursor: 4 }))).toEqual([])
      await process.closeInput()
      await process.wait()
      const ended = await all(process.output({ follow: false }))
      expect(ended.map(({ type }) => type)).toEqual(['stdout', 'exit'])
    }))

  it('lets go of the reader alone when its loop is left', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(`echo one; echo two; ${echoes}`, { input: 'pipe' })
      for await (const event of process.output()) {
        expect(event.type).toBe('stdout')
        break
      }
      expect(process.state).toBe('running')
      const events = process.output({ cursor: 8 })
      const pending = events.next()
      expect(await events.return?.()).toEqual({ done: true, value: undefined })
      expect(await pending).toEqual({ done: true, value: undefined })
      expect(await events.next()).toEqual({ done: true, value: undefined })
      await process.write('still there\n')
      await process.waitForLog('still there')
    }))

  it('answers calls of next that overlap in their order', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(`${echoes}`, { input: 'pipe' })
      const events = process.output({ encoding: 'buffer' })
      const nexts = [events.next(), events.next(), events.next()]
      await process.write('x\n')
      await nexts[0]
      await process.closeInput()
      expect((await Promise.all(nexts)).map(({ value }) => value?.type)).toEqual([
        'stdout',
        'exit',
        undefined,
      ])
    }))

  it('throws an AbortError when its signal is aborted, whether it waits or not', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo one; sleep 60')
      const controller = new AbortController()
      const events = process.output({ signal: controller.signal })
      await events.next()
      const pending = rejectionOf(events.next())
      const reason = new Error('enough')
      controller.abort(reason)
      expect(await pending).toMatchObject({
        code: 'ABORT_ERR',
        cause: reason,
        message: 'reading the log was aborted',
      })
      expect(await events.next()).toEqual({ done: true, value: undefined })
      const refused = process.output({ signal: AbortSignal.abort() })
      expect(await rejectionOf(refused.next())).toMatchObject({ code: 'ABORT_ERR' })
      const second = new AbortController()
      const between = process.output({ signal: second.signal })
      await between.next()
      second.abort()
      expect(await rejectionOf(between.next())).toMatchObject({ code: 'ABORT_ERR' })
      expect(process.state).toBe('running')
    }))

  it('of an unknown process rejects the first next, and bad options throw', () =>
    withSandbox(async ({ sandbox }) => {
      const none = sandbox.streamProcessLogs('none')
      expect(await rejectionOf(none.next())).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
      expect(await none.next()).toEqual({ done: true, value: undefined })
      expect(await rejectionOf(sandbox.getProcessLogs('none'))).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
      expect(thrownBy(() => sandbox.streamProcessLogs('a/b'))).toMatchObject({ code: 'INVALID_ID' })
      const process = await sandbox.startProcess('true')
      expect(thrownBy(() => process.output({ cursor: -1 }))).toMatchObject({ code: 'INVALID_OPTION' })
      expect(thrownBy(() => sandbox.streamProcessLogs(process.id, { from: 1 } as never))).toMatchObject({
        code: 'INVALID_OPTION',
      })
    }))

  it('ends with the process when the sandbox is destroyed', () =>
    withSandbox(
      async ({ sandbox }) => {
        const process = await sandbox.startProcess('echo one; exec sleep 60')
        const events = process.output()
        await events.next()
        const last = events.next()
        await sandbox.destroy()
        expect(await last).toMatchObject({ value: { type: 'exit', reason: 'killed' } })
        expect(await rejectionOf(process.output().next())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      },
      { destroys: true },
    ))
})

describe('a log', () => {
  it('that is read while the sandbox is being destroyed rejects as the sandbox does', async () => {
    const errors = new Set<unknown>()
    for (let round = 0; round < 10; round++) {
      await withSandbox(
        async ({ sandbox }) => {
          const process = await sandbox.startProcess('sleep 60')
          const read = async () => {
            while (true) {
              await process.getLogs()
              await setImmediate()
            }
          }
          const reading = [rejectionOf(read()), rejectionOf(read())]
          await sandbox.destroy()
          for (const error of await Promise.all(reading)) errors.add((error as { code?: string }).code)
        },
        { destroys: true },
      )
    }
    expect([...errors]).toEqual(['SANDBOX_DESTROYED'])
  })

  it('keeps the newest bytes up to its limit and counts the missing ones', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess("head -c 5000000 /dev/zero | tr '\\0' x; echo -n end", {
        logLimit: 3_000_000,
      })
      await process.wait()
      const { stdout, truncated } = await process.getLogs()
      expect(truncated).toBe(2_000_003)
      expect(stdout.length).toBe(3_000_000)
      expect(stdout.endsWith('xxxend')).toBe(true)
      const events = await all(process.output())
      expect(events[0]).toMatchObject({ missing: 2_000_003 })
      expect(text(events) === stdout).toBe(true)
      expect(events.slice(1).filter((event) => 'missing' in event)).toEqual([])
    }))

  it('with a limit of 0 keeps nothing and counts the missing bytes', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo x', { logLimit: 0 })
      await process.wait()
      expect(await process.getLogs()).toEqual({ stdout: '', stderr: '', truncated: 2 })
      expect(await all(process.output())).toMatchObject([{ type: 'exit', exitCode: 0, missing: 2 }])
    }))

  it('leaves no file behind, not even while it is large', () =>
    withSandbox(async ({ sandbox, stateDir }) => {
      const process = await sandbox.startProcess('head -c 4000000 /dev/zero; sleep 60')
      await until(
        async () => {
          const last = await all(process.output({ cursor: 3_999_999, follow: false, encoding: 'buffer' }))
          return last.length > 0 || undefined
        },
        () => 'the output has not come',
      )
      const { readdirSync } = await import('node:fs')
      expect(readdirSync(stateDir).filter((name) => name.startsWith('log'))).toEqual([])
    }))

  it('keeps output of a child after the end of the process', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(
        '(while [ ! -e go ]; do sleep 0.01; done; echo late) & echo first',
      )
      await process.wait()
      expect((await process.getLogs()).stdout).toBe('first\n')
      await sandbox.exec('touch go')
      const late = () => process.getLogs().then(({ stdout }) => stdout === 'first\nlate\n' || undefined)
      await until(late, () => 'the late line has not come')
    }))
})

describe('a process that prints much', () => {
  it('runs to its end without a reader', () =>
    withSandbox(async ({ sandbox }) => {
      const process: Process = await sandbox.startProcess('head -c 50000000 /dev/zero; echo done', {
        logLimit: 1_000_000,
      })
      expect(await process.wait()).toMatchObject({ exitCode: 0 })
      const { stdout, truncated } = await process.getLogs({ encoding: 'buffer' })
      expect(Buffer.from(stdout.slice(-6)).toString()).toBe('\0done\n')
      expect([stdout.length, truncated]).toEqual([1_000_000, 50_000_005 - 1_000_000])
    }))
})
