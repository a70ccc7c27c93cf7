/** Calls are published on tracing channels, and printed with `verbose`. */
import diagnostics from 'node:diagnostics_channel'
import { SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { all } from './helpers/stream.js'
import { rejectionOf } from './helpers/thrown.js'
import { until } from './helpers/until.js'

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
      expect(first).toEqual({ command: 'echo hi', sessionId: 'default', env: {} })
      expect(last).toMatchObject({ command: 'echo hi', pid: expect.any(Number), result: { stdout: 'hi\n' } })
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
        await (await sandbox.startProcess('true', { processId: 'one' })).waitForExit()
      })
      expect(process?.[1]).toEqual({ command: 'true', sessionId: 'default', processId: 'one', env: {} })
      const [job] = await published('job', async () => {
        const handle = await sandbox.jobs.start({ command: 'true', jobId: 'first' })
        await sandbox.jobs.wait(handle)
        await sandbox.jobs.remove(handle)
      })
      expect(job?.[1]).toEqual({ command: 'true', jobId: 'first', env: {} })
    }))
})

describe('env of a tracing context', () => {
  const channels = ['exec', 'process', 'job'].map((kind) => diagnostics.tracingChannel(`nacre:${kind}`))

  /** Runs with a subscriber that adds variables. */
  async function withAdded(env: Record<string, unknown>, run: () => Promise<unknown>): Promise<void> {
    const start = (context: unknown) => void Object.assign((context as { env: object }).env, env)
    for (const channel of channels) channel.start.subscribe(start)
    try {
      await run()
    } finally {
      for (const channel of channels) channel.start.unsubscribe(start)
    }
  }

  it('reaches the command alone, and never replaces what the caller gave', () =>
    withSandbox(async ({ sandbox }) => {
      const show = 'echo "$A ${B-unset}"'
      await withAdded({ A: 'added' }, async () => {
        const { stdout } = await sandbox.exec(show)
        expect(stdout).toBe('added unset\n')
        const given = await sandbox.exec(show, { env: { A: 'given', B: 'b' } })
        expect(given.stdout).toBe('given b\n')
        expect((await sandbox.exec(show, { env: { A: undefined } })).stdout).toBe(' unset\n')
        expect((await sandbox.execStream(['printenv', 'A']).result).stdout).toBe('added\n')
        const process = await sandbox.startProcess(show, { env: { B: 'b' } })
        await process.waitForExit()
        expect((await process.getLogs()).stdout).toBe('added b\n')
        const job = await sandbox.jobs.start({ command: show })
        await sandbox.jobs.wait(job)
        expect((await sandbox.jobs.read(job)).raw).toBe('added unset\n')
        await sandbox.jobs.remove(job)
      })
      expect((await sandbox.exec('echo "${A-unset}"')).stdout).toBe('unset\n')
    }))

  it('is refused before anything runs when it is not valid', () =>
    withSandbox(async ({ sandbox }) => {
      await withAdded({ 'A-B': 'x' }, async () => {
        const message = /^env of the tracing context has the name "A-B"/
        const refused = [sandbox.exec('touch ran'), sandbox.startProcess('touch ran')]
        for (const error of await Promise.all(refused.map(rejectionOf)))
          expect(error).toMatchObject({ code: 'INVALID_ENV_NAME', message: expect.stringMatching(message) })
      })
      expect((await sandbox.exec('ls')).stdout).toBe('')
    }))

  it('is the last event of a stream when it is not valid, and its call is published to its end', () =>
    withSandbox(async ({ sandbox }) => {
      await withAdded({ 'A-B': 'x' }, async () => {
        const events = await published('exec', async () => {
          const seen = await all(sandbox.execStream('true'))
          expect(seen).toMatchObject([{ type: 'error', error: { code: 'INVALID_ENV_NAME' } }])
        })
        expect(events.map(([name]) => name)).toEqual(['start', 'end', 'error', 'asyncStart', 'asyncEnd'])
      })
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
        await (await sandbox.startProcess('exit 5', { processId: 'p', verbose: true })).waitForExit()
        await until(
          () => lines.length === 8 || undefined,
          () => lines.join(''),
        )
        await rejectionOf(sandbox.startProcess('true', { cwd: '/proc/nowhere', verbose: true }))
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
        '\\$ exit 5',
        '✘ p: exit code 5, done in \\d+ ms',
        '\\$ true',
        '✘ .*/proc/nowhere.* \\(done in \\d+ ms\\)',
      ]
      expect(lines).toHaveLength(expected.length)
      for (const [at, line] of lines.entries())
        expect(line).toMatch(new RegExp(`^${time} ${expected[at]}\n$`))
    }))
})
