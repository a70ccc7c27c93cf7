import { readdirSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import type { LogEvent } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const text = (events: LogEvent[]) => events.map((event) => ('data' in event ? event.data : '')).join('')

describe('output', () => {
  itInSandbox(
    'gives the same to readers that come at any time, each at its own pace',
    async ({ sandbox }) => {
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
      await process.waitForExit()
      const after = all(process.output())
      for (const events of [early, late, after]) expect(text(await events) === expected).toBe(true)
      expect((await slow) === expected).toBe(true)
      expect((await process.getLogs()).stdout === expected).toBe(true)
    },
  )

  itInSandbox('goes on from the cursor of any event, without a gap or a duplicate', async ({ sandbox }) => {
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
  })
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

  itInSandbox('keeps the newest bytes up to its limit and counts the missing ones', async ({ sandbox }) => {
    const process = await sandbox.startProcess("head -c 5000000 /dev/zero | tr '\\0' x; echo -n end", {
      logLimit: 3_000_000,
    })
    await process.waitForExit()
    const { stdout, truncated } = await process.getLogs()
    expect(truncated).toBe(2_000_003)
    expect(stdout.length).toBe(3_000_000)
    expect(stdout.endsWith('xxxend')).toBe(true)
    const events = await all(process.output())
    expect(events[0]).toMatchObject({ missing: 2_000_003 })
    expect(text(events) === stdout).toBe(true)
    expect(events.slice(1).filter((event) => 'missing' in event)).toEqual([])
    const none = await sandbox.startProcess('echo x', { logLimit: 0 })
    await none.waitForExit()
    expect(await none.getLogs()).toEqual({ stdout: '', stderr: '', truncated: 2 })
    expect(await all(none.output())).toMatchObject([{ type: 'exit', exitCode: 0, missing: 2 }])
  })

  itInSandbox('leaves no file behind, not even while it is large', async ({ sandbox, stateDir }) => {
    const process = await sandbox.startProcess('head -c 4000000 /dev/zero; sleep 60')
    await until(
      async () => {
        const last = await all(process.output({ cursor: 3_999_999, follow: false, encoding: 'buffer' }))
        return last.length > 0 || undefined
      },
      () => 'the output has not come',
    )
    expect(readdirSync(stateDir).filter((name) => name.startsWith('log'))).toEqual([])
  })

  itInSandbox('keeps output of a child after the end of the process', async ({ sandbox }) => {
    const process = await sandbox.startProcess(
      '(while [ ! -e go ]; do sleep 0.01; done; echo late) & echo first',
    )
    await process.waitForExit()
    expect((await process.getLogs()).stdout).toBe('first\n')
    await sandbox.exec('touch go')
    const late = () => process.getLogs().then(({ stdout }) => stdout === 'first\nlate\n' || undefined)
    await until(late, () => 'the late line has not come')
  })
})
