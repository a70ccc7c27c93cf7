/** What runs in a sandbox is seen the same here and over HTTP. */
import { describe, expect } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { itHolds } from './helper.js'

describe('session.running', () => {
  itHolds('lists the running command and those that wait', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    expect(await session.running()).toEqual([])
    const before = Date.now()
    const first = session.execStream('echo out; echo err >&2; until [ -e go ]; do sleep 0.01; done')
    const second = session.execStream(['echo', "it's", '$HOME'])
    const printed = new Set()
    const events = first[Symbol.asyncIterator]()
    let pid: number | undefined
    while (printed.size < 2) {
      const { value } = await events.next()
      if (value?.type === 'start') pid = value.pid
      if (value?.type === 'stdout' || value?.type === 'stderr') printed.add(value.type)
    }
    const commands = await until(
      async () => {
        const all = await session.running()
        return all.length === 2 ? all : undefined
      },
      () => 'the second command does not wait',
    )
    const { timestamp, lastOutputAt } = commands[0] ?? {}
    expect(commands).toEqual([
      {
        ...{ id: expect.any(String), command: expect.stringMatching(/^echo out; .* done$/), pid },
        ...{ timestamp: expect.any(String), stdoutBytes: 4, stderrBytes: 4, lastOutputAt: expect.any(Date) },
        heldBy: null,
      },
      {
        ...{ id: expect.any(String), command: "echo 'it'\\''s' '$HOME'", timestamp: null, pid: null },
        ...{ stdoutBytes: 0, stderrBytes: 0, lastOutputAt: null, heldBy: null },
      },
    ])
    expect(Date.parse(timestamp ?? '')).toBeGreaterThanOrEqual(before)
    expect(Number(lastOutputAt)).toBeGreaterThanOrEqual(Date.parse(timestamp ?? ''))
    expect(commands[0]?.id).not.toBe(commands[1]?.id)
    await sandbox.exec('touch go')
    expect((await second.result).stdout).toBe("it's $HOME\n")
    expect(await session.running()).toEqual([])
    await session.delete()
    expect(await rejectionOf(session.running())).toMatchObject({ code: 'SESSION_NOT_FOUND' })
  })

  itHolds('lists nothing before the first use', async ({ sandbox }) => {
    const session = await sandbox.getSession('default')
    expect(await session?.running()).toEqual([])
  })
})

describe('process.terminal', () => {
  itHolds('is the size and the mode of the terminal while the process runs', async ({ sandbox }) => {
    const options = { pty: { cols: 100, rows: 30 } }
    const process = await sandbox.startProcess(
      'stty -echo; read secret; stty raw; read -n 1; stty sane',
      options,
    )
    const shows = (mode: object) =>
      until(
        async () => ((await process.getStatus()) && isMatch(process.terminal, mode)) || undefined,
        () => `the terminal is ${JSON.stringify(process.terminal)}`,
      )
    await shows({ cols: 100, rows: 30, echo: false, canonical: true })
    expect([process.lastInputAt, process.toJSON().lastInputAt]).toEqual([null, null])
    const before = Date.now()
    await process.resize(90, 20)
    await process.write('x\n')
    await shows({ cols: 90, rows: 20, echo: false, canonical: false })
    expect(Number(process.lastInputAt)).toBeGreaterThanOrEqual(before)
    await process.write('y')
    await process.waitForExit()
    expect([process.terminal, process.toJSON().terminal]).toEqual([null, null])
    const plain = await sandbox.startProcess('sleep 600')
    expect(plain.terminal).toBeNull()
  })
})

function isMatch(terminal: object | null, mode: object): boolean {
  return JSON.stringify(terminal) === JSON.stringify(mode)
}

describe('killedBy', () => {
  itHolds('says what has killed a command, and why', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    const own = session.execStream('sleep 600')
    await own[Symbol.asyncIterator]().next()
    expect(await own.kill('SIGINT', { reason: 'it took too long' })).toBe(true)
    expect((await own.result).killedBy).toEqual({ by: 'caller', reason: 'it took too long' })
    expect((await session.exec('echo ok')).killedBy).toBeNull()
    expect((await session.exec('kill -9 $$')).killedBy).toBeNull()
    const late = await rejectionOf(session.exec('sleep 600', { timeout: 20 }))
    expect(late).toMatchObject({ result: { killedBy: { by: 'timeout', reason: null } } })
    const chatty = await rejectionOf(session.exec('yes', { outputLimit: 10 }))
    expect(chatty).toMatchObject({ result: { killedBy: { by: 'outputLimit', reason: null } } })
    const abort = new AbortController()
    const onStart = () => abort.abort()
    const aborted = await rejectionOf(session.exec('echo x; sleep 600', { signal: abort.signal, onStart }))
    expect(aborted).toMatchObject({ name: 'AbortError', result: { killedBy: { by: 'abort', reason: null } } })
    const ended = session.execStream('sleep 600')
    await ended[Symbol.asyncIterator]().next()
    await session.delete()
    expect(await rejectionOf(ended.result)).toMatchObject({
      ...{ code: 'SESSION_DESTROYED', result: { killedBy: { by: 'session', reason: null } } },
    })
  })

  itHolds('says what has killed a process, and why', async ({ sandbox }) => {
    const killed = await sandbox.startProcess('sleep 600')
    expect(killed.killedBy).toBeNull()
    await killed.kill('SIGTERM', { reason: 'no longer needed' })
    const expected = { by: 'caller', reason: 'no longer needed' }
    expect([killed.killedBy, killed.toJSON().killedBy]).toEqual([expected, expected])
    const late = await sandbox.startProcess('sleep 600', { timeout: 20 })
    expect(await late.waitForExit()).toMatchObject({ reason: 'timeout' })
    expect(late.killedBy).toEqual({ by: 'timeout', reason: null })
    const abort = new AbortController()
    const aborted = await sandbox.startProcess('sleep 600', { signal: abort.signal })
    abort.abort()
    await aborted.waitForExit()
    expect(aborted.killedBy).toEqual({ by: 'abort', reason: null })
    const own = await sandbox.startProcess('exit 3')
    await own.waitForExit()
    expect(own.killedBy).toBeNull()
    const session = await sandbox.createSession({ id: 'one' })
    const ended = await session.startProcess('sleep 600')
    await session.delete()
    await ended.waitForExit()
    expect(ended.killedBy).toEqual({ by: 'session', reason: null })
  })

  itHolds('is the caller also for commands of other callers', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    const first = session.execStream('sleep 600')
    await first[Symbol.asyncIterator]().next()
    const second = session.execStream('touch ran')
    const [runs, waits] = await until(
      async () => {
        const all = await session.running()
        return all.length === 2 ? all : undefined
      },
      () => 'the second command does not wait',
    )
    expect(await session.killCommand(waits?.id ?? '', 'SIGTERM', { reason: 'not this' })).toBe(true)
    expect(await second.result).toMatchObject({
      ...{ cancelled: true, exitCode: null, signal: null, killedBy: { by: 'caller', reason: 'not this' } },
    })
    expect(await session.killCommand(runs?.id ?? '', 'SIGINT')).toBe(true)
    const killedBy = { by: 'caller', reason: null }
    expect(await first.result).toMatchObject({ cancelled: true, signal: 'SIGINT', killedBy })
    expect(await session.running()).toEqual([])
    for (const id of [runs?.id ?? '', '4294967297', 'none', '01'])
      expect(await session.killCommand(id)).toBe(false)
    await session.delete()
    expect(await rejectionOf(session.killCommand('1'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
  })
})
