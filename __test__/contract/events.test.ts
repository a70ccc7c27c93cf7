/** The feed of events is the same here and over HTTP. */
import type { SandboxEvent } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { all, printed } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

type Feed = AsyncIterator<SandboxEvent>
type Found<T> = Extract<SandboxEvent, { type: T }>

/** The events up to the first of a type for which the test holds. */
async function upTo<T extends SandboxEvent['type']>(
  feed: Feed,
  type: T,
  holds: (event: Found<T>) => boolean = () => true,
): Promise<[...SandboxEvent[], Found<T>]> {
  const seen: SandboxEvent[] = []
  for (;;) {
    const { done, value } = await feed.next()
    if (done) throw new Error(`no ${type} after ${JSON.stringify(seen)}`)
    if (value.type === type && holds(value as Found<T>)) return [...seen, value as Found<T>]
    seen.push(value)
  }
}

const typesOf = (events: SandboxEvent[]) => events.map(({ type }) => type)

describe('events', () => {
  itHolds('show the commands of a session in their order', async ({ sandbox, directory }) => {
    const feed = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
    const session = await sandbox.createSession({ id: 'one' })
    const [opened] = await upTo(feed, 'sessionStarted', ({ sessionId }) => sessionId === 'one')
    expect(opened).toMatchObject({ cursor: 1, time: expect.any(Date) })
    await session.exec('true')
    const next = feed.next()
    const first = session.execStream(
      `printf 'ä'; echo err >&2; until [ -e ${directory}/go ]; do sleep 0.01; done; exit 3`,
    )
    await next
    const printed = await upTo(
      feed,
      'commandOutput',
      (event) => event.stderrBytes === 4 && event.stdoutBytes === 2,
    )
    const output = printed.filter(({ type }) => type === 'commandOutput') as Found<'commandOutput'>[]
    const text = (stream: 'stdout' | 'stderr') =>
      Buffer.concat(output.map((event) => event[stream])).toString()
    expect([text('stdout'), text('stderr')]).toEqual(['ä', 'err\n'])
    const [running] = await session.running()
    const { id } = output[0] as Found<'commandOutput'>
    expect(running?.id).toBe(id)
    const second = session.execStream(['echo', 'a b'])
    const [...before] = await upTo(feed, 'commandQueued')
    expect(before.at(-1)).toMatchObject({ sessionId: 'one', command: "echo 'a b'" })
    await sandbox.files.write(`${directory}/go`, '')
    await second.result
    const ended = await upTo(feed, 'commandEnded', (event) => event.id === id)
    expect(ended.at(-1)).toMatchObject({
      ...{ exitCode: 3, signal: null, killedBy: null, stdoutBytes: 2, stderrBytes: 4, cwd: directory },
    })
    const started = await upTo(feed, 'commandStarted', (event) => event.id !== id)
    expect(started.at(-1)).toMatchObject({ command: "echo 'a b'", pid: expect.any(Number) })
    const rest = await upTo(feed, 'commandEnded')
    expect(typesOf(rest)).toEqual(['commandOutput', 'commandEnded'])
    expect(Buffer.from((rest[0] as Found<'commandOutput'>).stdout).toString()).toBe('a b\n')
    await session.delete()
    const end = await upTo(feed, 'sessionEnded', ({ sessionId }) => sessionId === 'one')
    const all = [...printed, ...before, ...ended, ...started, ...rest, ...end]
    expect(all.map(({ cursor }) => cursor)).toEqual(all.map((_, index) => (all[0]?.cursor ?? 0) + index))
    await feed.return?.()
    expect(await first.result).toMatchObject({ exitCode: 3 })
  })

  itHolds('show who has killed what, and why', async ({ sandbox }) => {
    const feed = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
    const stream = sandbox.execStream('sleep 600')
    await upTo(feed, 'commandStarted')
    await stream.kill('SIGTERM', { reason: 'enough' })
    const ended = await upTo(feed, 'commandEnded')
    expect(ended.at(-1)).toMatchObject({ exitCode: null, killedBy: { by: 'caller', reason: 'enough' } })
    await feed.return?.()
  })

  itHolds(
    'show what was printed before a queued command ends, and before a command is detached',
    async ({ sandbox }) => {
      for (const next of ['kill', 'detach'] as const) {
        const session = await sandbox.createSession()
        const isHere = ({ sessionId }: { sessionId: string }) => sessionId === session.id
        const feed = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
        const running = session.execStream('until [ -e go ]; do sleep 0.01; done; printf asks; sleep 600')
        await upTo(feed, 'commandStarted', isHere)
        const queued = session.execStream('true')
        await upTo(feed, 'commandQueued', (event) => isHere(event) && event.command === 'true')
        const events = running[Symbol.asyncIterator]()
        await sandbox.files.write('go', '')
        await printed(events)
        const ended = next === 'kill' ? queued.kill() : running.detach()
        const seen = await upTo(feed, 'commandOutput', isHere)
        expect(Buffer.from((seen.at(-1) as Found<'commandOutput'>).stdout).toString()).toBe('asks')
        expect(typesOf(seen)).not.toContain('commandDetached')
        await ended
        await running.kill()
        await session.delete()
        await sandbox.files.remove('go')
        await feed.return?.()
      }
    },
  )

  itHolds('show processes, what they wait for, and services', async ({ sandbox }) => {
    const feed = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
    const process = await sandbox.startProcess('read -r name', { processId: 'asks', pty: true })
    const started = await upTo(feed, 'processStarted')
    expect(started.at(-1)).toMatchObject({
      id: 'asks',
      pid: process.pid,
      command: 'read -r name',
      terminal: { cols: 80, rows: 24 },
    })
    await process.resize(100, 30)
    const resized = await upTo(feed, 'processResized')
    expect(resized.at(-1)).toMatchObject({ id: 'asks', cols: 100, rows: 30 })
    await process.waitForInput()
    const waits = await upTo(feed, 'processWaiting')
    expect(waits.at(-1)).toMatchObject({ id: 'asks', waiting: { state: 'reading', how: 'line' } })
    // Whoever asks again learns nothing new.
    await process.waiting()
    await process.kill()
    const killed = await upTo(feed, 'processEnded')
    expect(typesOf(killed)).toEqual(['processEnded'])
    const killedBy = { by: 'caller', reason: null }
    expect(killed.at(-1)).toMatchObject({ id: 'asks', reason: 'killed', killedBy })
    const service = await sandbox.startService('sleep 600', {
      processId: 'web',
      healthCheck: { command: 'true' },
    })
    await service.restart()
    const again = await upTo(feed, 'serviceRestarted')
    expect(again.at(-1)).toMatchObject({ id: 'web', restarts: 1 })
    const ids = again.flatMap((event) => (event.type === 'processStarted' ? [event.id] : []))
    expect(ids).toEqual(['web', 'web'])
    await service.kill()
    await feed.return?.()
  })

  itHolds('go on after a cursor, and say what is lost', async ({ sandbox }) => {
    await sandbox.exec('echo x')
    const feed = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
    const all = await upTo(feed, 'commandEnded')
    const after = sandbox.events({ since: all[0]?.cursor ?? 0 })[Symbol.asyncIterator]()
    expect((await after.next()).value).toEqual(all[1])
    await after.return?.()
    // 4 MiB are kept, and 10,000 bytes of a command.
    const long = `: ${'x'.repeat(10_000)}`
    for (let index = 0; index < 500; index += 100)
      await Promise.all(Array.from({ length: 100 }, () => sandbox.exec(long)))
    const late = sandbox.events({ since: 1 })[Symbol.asyncIterator]()
    const { value: lost } = await late.next()
    const { value: oldest } = await late.next()
    expect(lost).toMatchObject({
      type: 'lost',
      count: (oldest?.cursor ?? 0) - 2,
      cursor: (oldest?.cursor ?? 0) - 1,
    })
    await Promise.all([feed.return?.(), late.return?.()])
  })

  it('end with the sandbox', () =>
    withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec('true')
        const feed = sandbox.events({ since: 0 })
        const read = all(feed)
        await sandbox.destroy()
        expect((await read).at(-1)).toMatchObject({ type: 'sessionEnded', sessionId: 'default' })
        expect(await feed.next()).toEqual({ done: true, value: undefined })
        expect(await rejectionOf(sandbox.events().next())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      },
      { destroys: true },
    ))

  itHolds('end by an abort, and refuse a cursor of another sandbox', async ({ sandbox }) => {
    const abort = new AbortController()
    const pending = rejectionOf(sandbox.events({ signal: abort.signal })[Symbol.asyncIterator]().next())
    abort.abort()
    expect(await pending).toMatchObject({ name: 'AbortError' })
    const foreign = sandbox.events({ since: 1e6 })[Symbol.asyncIterator]()
    expect(await rejectionOf(foreign.next())).toMatchObject({
      ...{ code: 'INVALID_OPTION', message: expect.stringContaining('since') },
    })
  })
})
