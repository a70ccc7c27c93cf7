/** Calls are published on tracing channels, and printed with `verbose`. */
import diagnostics from 'node:diagnostics_channel'
import { SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { rejectionOf } from './helpers/thrown.js'

type Context = Record<string, unknown>

/** What a channel publishes while `run` runs, as names of events and their contexts. */
async function published(kind: string, run: () => Promise<unknown>): Promise<Array<[string, Context]>> {
  const events: Array<[string, Context]> = []
  const note = (name: string) => (context: unknown) => events.push([name, { ...(context as Context) }])
  const names = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const
  const subscribers = Object.fromEntries(names.map((name) => [name, note(name)])) as Record<
    (typeof names)[number],
    (context: unknown) => number
  >
  const channel = diagnostics.tracingChannel(`nacre:${kind}`)
  channel.subscribe(subscribers)
  try {
    await run()
  } finally {
    channel.unsubscribe(subscribers)
  }
  return events
}

describe('tracing channels', () => {
  it('publish a command from its start to its result', () =>
    withSandbox(async ({ sandbox }) => {
      const events = await published('exec', () => sandbox.exec('echo hi'))
      expect(events.map(([name]) => name)).toEqual(['start', 'end', 'asyncStart', 'asyncEnd'])
      const [[, first] = ['', {}], , , [, last] = ['', {}]] = events
      expect(first).toEqual({ command: 'echo hi', sessionId: 'default' })
      expect(last).toMatchObject({ command: 'echo hi', result: { stdout: 'hi\n' } })
      expect(await published('exec', () => sandbox.execStream('true').result)).toHaveLength(4)
    }))

  it('publish the error of a command', () =>
    withSandbox(async ({ sandbox }) => {
      const events = await published('exec', () => rejectionOf(sandbox.exec('exit 3', { check: true })))
      expect(events.map(([name]) => name)).toContain('error')
      expect(events.at(-1)?.[1].error).toBeInstanceOf(SandboxError)
    }))

  it('publish starts of processes and jobs', () =>
    withSandbox(async ({ sandbox }) => {
      const [process] = await published('process', async () => {
        await (await sandbox.startProcess('true', { processId: 'one' })).wait()
      })
      expect(process?.[1]).toEqual({ command: 'true', sessionId: 'default', processId: 'one' })
      const [job] = await published('job', async () => {
        const handle = await sandbox.jobs.start({ command: 'true', jobId: 'first' })
        await sandbox.jobs.wait(handle)
        await sandbox.jobs.remove(handle)
      })
      expect(job?.[1]).toEqual({ command: 'true', jobId: 'first' })
    }))
})

// Bun opens what it needs for this stream at the first use.
const { stderr } = process
stderr.write('')

describe('verbose', () => {
  it('prints the command, its duration and its end on standard error', () =>
    withSandbox(async ({ sandbox }) => {
      const lines: string[] = []
      const write = stderr.write
      stderr.write = (text: unknown) => lines.push(String(text)) > 0
      try {
        await sandbox.exec('true', { verbose: true })
        await sandbox.exec('exit 3', { verbose: true })
        await rejectionOf(sandbox.exec('exit 4', { verbose: true, check: true }))
        await sandbox.exec('true')
      } finally {
        stderr.write = write
      }
      const time = '\\[\\d\\d:\\d\\d:\\d\\d\\.\\d{3}\\]'
      const expected = [
        '\\$ true',
        '✔ done in \\d+ ms',
        '\\$ exit 3',
        '✘ exit code 3, done in \\d+ ms',
        '\\$ exit 4',
        '✘ `exit 4` ended with exit code 4 after \\d+ ms \\(done in \\d+ ms\\)',
      ]
      expect(lines).toHaveLength(expected.length)
      for (const [at, line] of lines.entries())
        expect(line).toMatch(new RegExp(`^${time} ${expected[at]}\n$`))
    }))
})
