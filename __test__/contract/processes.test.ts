/** Background processes and services are the same here and over HTTP. */
import { getEventListeners } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { LogEvent } from 'nacre'
import { describe, expect } from 'vitest'
import { freePort, serverCommand } from '../helpers/serving.js'
import { all } from '../helpers/stream.js'
import { rejectionOf, rejectionsOf, thrownBy } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { type ContractPlace, itHolds } from './helper.js'

/** A stream is opened by a call that returns no promise. */
async function destroyed({ sandbox }: ContractPlace): Promise<void> {
  const process = await sandbox.startProcess('sleep 60')
  await sandbox.destroy()
  for (const stream of [sandbox.streamProcessLogs(process.id), process.output()])
    expect(await rejectionOf(stream.next())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
}

describe('processes', () => {
  itHolds('gives a terminal of 80 x 24 with `pty: true`, and none with false', async ({ sandbox }) => {
    const process = await sandbox.startProcess('stty size', { pty: true })
    await process.waitForExit({ timeout: 10_000 })
    expect((await process.getLogs()).stdout).toBe('24 80\r\n')
    const plain = await sandbox.startProcess('[ -t 1 ] || echo none', { pty: false })
    await plain.waitForExit({ timeout: 10_000 })
    expect((await plain.getLogs()).stdout).toBe('none\n')
  })

  itHolds('start from the session, and report their end', async ({ sandbox, directory }) => {
    await sandbox.exec('X=5; cd /tmp')
    const before = Date.now()
    const process = await sandbox.startProcess('echo $X; pwd; exit 3', { processId: 'one' })
    expect(process).toMatchObject({ id: 'one', sessionId: 'default', command: 'echo $X; pwd; exit 3' })
    expect(process.pid).toBeGreaterThan(1)
    expect(Math.abs(process.startTime.getTime() - before)).toBeLessThan(5000)
    expect(await process.waitForExit()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect(process).toMatchObject({ status: 'failed', exitCode: 3, reason: 'exit' })
    expect(process.endTime?.getTime()).toBeGreaterThanOrEqual(process.startTime.getTime())
    expect(await process.getLogs()).toEqual({ stdout: '5\n/tmp\n', stderr: '' })
    for (const limit of [{ timeout: 5000 }, 5000])
      expect(await process.waitForExit(limit)).toMatchObject({ exitCode: 3 })
    for (const [command, status, end] of [
      ['exit 0', 'completed', { exitCode: 0, signal: null, reason: 'exit' }],
      ['kill -SEGV $BASHPID', 'killed', { exitCode: null, signal: 'SIGSEGV', reason: 'signal' }],
    ] as const) {
      const ended = await sandbox.startProcess(command)
      expect(await ended.waitForExit()).toEqual(end)
      expect(ended.toJSON()).toMatchObject({ status, ...end })
    }
    await sandbox.exec('export A=a B=b')
    const options = { cwd: directory, env: { A: 'new', B: undefined } }
    const own = await sandbox.startProcess('echo $PWD $A ${B-unset}; cd /; A=z', options)
    await own.waitForExit()
    expect((await own.getLogs()).stdout).toBe(`${directory} new unset\n`)
    expect((await sandbox.exec('echo $PWD $A $B')).stdout).toBe('/tmp a b\n')
    const unknown = await sandbox.startProcess(['no-such-program', 'a b'])
    expect([unknown.id, unknown.command]).toEqual([
      expect.stringMatching(/^proc-[0-9a-f]{10}$/),
      "no-such-program 'a b'",
    ])
    expect(await unknown.waitForExit()).toMatchObject({ exitCode: 127 })
    expect((await unknown.getLogs()).stderr).toContain('no-such-program')
  })

  itHolds('report the error of a start that fails, and run nothing', async ({ sandbox }) => {
    const errors: unknown[] = []
    const onError = (error: unknown) => errors.push(error)
    await (await sandbox.startProcess('true', { processId: 'one' })).waitForExit()
    const refused: Array<[object, object]> = [
      [{ processId: 'one' }, { name: 'SandboxError', code: 'PROCESS_ALREADY_EXISTS' }],
      [{ cwd: 'missing' }, { code: 'CWD_NOT_FOUND' }],
      [{ sessionId: 'none' }, { code: 'SESSION_NOT_FOUND' }],
      [{ signal: AbortSignal.abort('no') }, { name: 'AbortError', cause: 'no' }],
    ]
    for (const [options, expected] of refused) {
      const error = await rejectionOf(sandbox.startProcess('touch ran', { ...options, onError }))
      expect(error).toMatchObject(expected)
      expect(errors.at(-1)).toBe(error)
    }
    expect(await rejectionOf(sandbox.startProcess('touch ran', { timeout: -1, onError }))).toMatchObject({
      code: 'INVALID_OPTION',
    })
    const healthCheck = { log: 'x' }
    const failed = await rejectionOf(sandbox.startService('exit 1', { healthCheck, onError }))
    expect(errors.slice(refused.length)).toEqual([failed])
    expect(await sandbox.listProcesses()).toHaveLength(1)
    expect((await sandbox.exec('ls')).stdout).toBe('')
  })

  itHolds('have null for unknown properties', async ({ sandbox }) => {
    const process = await sandbox.startProcess('sleep 60')
    const unknown = { exitCode: null, signal: null, reason: null }
    expect(process.toJSON()).toMatchObject(unknown)
    expect(process.toJSON()).not.toHaveProperty('endTime')
    expect(process.endTime).toBeUndefined()
    expect((await sandbox.getProcess(process.id))?.toJSON()).toMatchObject({ status: 'running', ...unknown })
    await process.kill()
    expect(process.toJSON()).toMatchObject({ endTime: expect.any(Date), reason: 'killed', exitCode: null })
    const service = await sandbox.startService('echo up; sleep 60', { healthCheck: { log: 'up' } })
    expect(service.lastFailure).toBeNull()
    expect(await service.getHealth()).toEqual({
      healthy: true,
      status: 'running',
      restarts: 0,
      lastFailure: null,
    })
    await service.kill()
  })

  itHolds('are listed, found, killed and forgotten', async ({ sandbox }) => {
    expect([await sandbox.killAllProcesses(), await sandbox.cleanupCompletedProcesses()]).toEqual([0, 0])
    expect([await sandbox.listProcesses(), await sandbox.getProcess('x')]).toEqual([[], null])
    const one = await sandbox.startProcess('sleep 60', { processId: 'one' })
    await sandbox.startProcess("trap '' TERM; echo on; sleep 60 & wait; wait", {
      processId: 'two',
      forceKillAfterDelay: 50,
    })
    expect((await sandbox.listProcesses({ status: 'running' })).map(({ id }) => id)).toEqual(['one', 'two'])
    const session = await sandbox.createSession({ id: 'other' })
    await (await session.startProcess('false', { processId: 'three' })).waitForExit()
    const ids = async (filter?: object) => (await sandbox.listProcesses(filter)).map(({ id }) => id)
    expect(await ids()).toEqual(['one', 'two', 'three'])
    expect(await ids({ status: ['running', 'failed'] })).toEqual(['one', 'two', 'three'])
    expect(await ids({ sessionId: 'other', status: 'failed' })).toEqual(['three'])
    expect(await ids({ sessionId: 'other', status: 'running' })).toEqual([])
    expect((await sandbox.getProcess('one'))?.pid).toBe(one.pid)
    expect(await sandbox.getProcess('none')).toBeNull()
    expect(await sandbox.killProcess('one', 'SIGINT')).toBe(true)
    expect(await sandbox.killProcess('one')).toBe(false)
    expect(await one.getStatus()).toBe('killed')
    expect(one).toMatchObject({ status: 'killed', signal: 'SIGINT' })
    await (await sandbox.getProcess('two'))?.waitForLog('on')
    expect(await sandbox.killAllProcesses()).toBe(1)
    expect(await sandbox.getProcess('two')).toMatchObject({ signal: 'SIGKILL', reason: 'killed' })
    const stubborn = await sandbox.startProcess("trap '' TERM; echo on; while :; do sleep 0.01; done")
    await stubborn.waitForLog('on')
    const answers = [stubborn.kill(undefined, { forceKillAfterDelay: 20 }), sandbox.killProcess(stubborn.id)]
    expect(await Promise.all(answers)).toContain(true)
    expect(stubborn).toMatchObject({ signal: 'SIGKILL', reason: 'killed' })
    {
      await using used = await sandbox.startProcess('sleep 60', { processId: 'used' })
      expect(used.status).toBe('running')
    }
    expect((await sandbox.getProcess('used'))?.status).toBe('killed')
    expect(await sandbox.cleanupCompletedProcesses()).toBe(5)
    for (const error of await rejectionsOf([sandbox.killProcess('one'), sandbox.getProcessLogs('one')]))
      expect(error).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })

  itHolds('do nothing to another process with their id, once they are forgotten', async ({ sandbox }) => {
    const options = { processId: 'mine', input: 'pipe' } as const
    const old = await sandbox.startProcess('echo old', options)
    await old.waitForExit()
    expect(await sandbox.cleanupCompletedProcesses()).toBe(1)
    const other = await sandbox.startProcess('cat; echo over', options)
    expect(await rejectionOf(old.write('x\n'))).toMatchObject({ code: 'INPUT_CLOSED' })
    const calls = [old.getLogs(), old.waitForLog('over'), old.stats(), all(old.output())]
    for (const error of await Promise.all(calls.map(rejectionOf)))
      expect(error).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(await old.kill()).toBe(false)
    await old.closeInput()
    expect(await old.waitForExit()).toMatchObject({ exitCode: 0 })
    await other.write('y\n')
    await other.closeInput()
    expect(await other.waitForExit()).toMatchObject({ exitCode: 0 })
    expect((await other.getLogs()).stdout).toBe('y\nover\n')
  })

  itHolds('read written input', async ({ sandbox }) => {
    const process = await sandbox.startProcess('cat; echo end', { input: 'pipe' })
    await process.write('a\n')
    await process.write(new Uint8Array([0, 255, 10]))
    await process.closeInput()
    await process.waitForExit()
    const { stdout } = await process.getLogs({ encoding: 'buffer' })
    expect(Array.from(stdout)).toEqual([97, 10, 0, 255, 10, 101, 110, 100, 10])
    expect(await rejectionOf(process.write('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
    const fed = await sandbox.startProcess('cat', { input: new Blob(['x'.repeat(100_000)]).stream() })
    await fed.waitForExit()
    expect((await fed.getLogs()).stdout).toHaveLength(100_000)
    const none = await sandbox.startProcess('cat; echo end; sleep 60')
    await none.waitForLog('end')
    const message = expect.stringContaining("needs a process that was started with input: 'pipe'")
    for (const error of await rejectionsOf([none.write('x'), none.closeInput()]))
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION', message })
    const open = await sandbox.startProcess('cat', { input: 'pipe' })
    expect(await rejectionOf(open.write(5 as never))).toMatchObject({ code: 'INVALID_OPTION' })
  })

  itHolds('hold back a writer that is faster than they are', async ({ sandbox }) => {
    const command = 'while [ ! -e go ]; do sleep 0.01; done; wc -c'
    const process = await sandbox.startProcess(command, { input: 'pipe' })
    let written = 0
    const writing = (async () => {
      for (; written < 10; written++) await process.write(Buffer.alloc(50_000))
    })()
    await holds(() => written > 0)
    expect(written).toBeLessThan(10)
    await sandbox.exec('touch go')
    await writing
    await process.closeInput()
    await process.waitForExit()
    expect((await process.getLogs()).stdout.trim()).toBe('500000')
  })

  itHolds('have logs that can be followed from anywhere', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo begun; cat; echo last >&2; exit 3', { input: 'pipe' })
    await process.waitForLog('begun')
    expect((await all(process.output({ follow: false }))).map(({ type }) => type)).toEqual(['stdout'])
    expect(await all(process.output({ follow: false, cursor: 6 }))).toEqual([])
    const events = process.output()
    expect(await events.next()).toMatchObject({ value: { type: 'stdout', data: 'begun\n', cursor: 6 } })
    const [next, after] = [events.next(), events.next()]
    await process.write('lä\n')
    expect(await next).toMatchObject({ value: { type: 'stdout', data: 'lä\n', cursor: 10 } })
    await process.closeInput()
    const rest = [(await after).value, ...(await all(events))]
    expect(rest).toMatchObject([
      { type: 'stderr', data: 'last\n', cursor: 15 },
      { type: 'exit', exitCode: 3, signal: null, reason: 'exit' },
    ])
    for (const event of rest) expect(Math.abs(Date.now() - Number(event?.time))).toBeLessThan(60_000)
    expect(await events.next()).toEqual({ done: true, value: undefined })
    const text = (list: LogEvent[]) => list.map((event) => ('data' in event ? event.data : '')).join('')
    expect(text(await all(sandbox.streamProcessLogs(process.id, { cursor: 6 })))).toBe('lä\nlast\n')
    const ended = await all(process.output({ follow: false }))
    expect([text(ended), ended.at(-1)?.type]).toEqual(['begun\nlä\nlast\n', 'exit'])
    const unknown = sandbox.streamProcessLogs('none')
    expect(await rejectionOf(unknown.next())).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(await unknown.next()).toEqual({ done: true, value: undefined })
    expect(thrownBy(() => sandbox.streamProcessLogs('a/b'))).toMatchObject({ code: 'INVALID_ID' })
    expect(thrownBy(() => process.output({ cursor: -1 }))).toMatchObject({ code: 'INVALID_OPTION' })
  })

  itHolds('go on when a reader of their log leaves or is aborted', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo one; sleep 60')
    const controller = new AbortController()
    const { signal } = controller
    const [waits, between] = [process.output({ signal }), process.output({ signal })]
    await Promise.all([waits.next(), between.next()])
    const waiting = rejectionOf(waits.next())
    controller.abort('enough')
    const message = 'reading the log was aborted'
    expect(await waiting).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR', cause: 'enough', message })
    expect(await waits.next()).toEqual({ done: true, value: undefined })
    for (const events of [between, process.output({ signal })])
      expect(await rejectionOf(events.next())).toMatchObject({ code: 'ABORT_ERR' })
    const left = process.output({ cursor: 4 })
    const next = left.next()
    expect(await left.return?.()).toEqual({ done: true, value: undefined })
    expect(await next).toEqual({ done: true, value: undefined })
    expect(await left.next()).toEqual({ done: true, value: undefined })
    expect(await process.getStatus()).toBe('running')
  })

  itHolds('are waited for', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo "port 8080"; read -r x; exit 4', { input: 'pipe' })
    const { line, match } = await process.waitForLog(/port (\d+)/)
    expect([line, match?.[1]]).toEqual(['port 8080', '8080'])
    expect(await rejectionOf(process.waitForExit({ timeout: 50 }))).toMatchObject({
      ...{ code: 'PROCESS_WAIT_TIMEOUT', kind: 'timeout', logTail: 'port 8080\n' },
      message: expect.stringContaining('50 ms passed before it ended'),
    })
    for (const wait of [process.waitForExit(40), process.waitForLog('x', 40)])
      expect(await rejectionOf(wait)).toMatchObject({
        message: expect.stringContaining(' 40 ms passed before'),
      })
    expect(await process.waitForLog('port', 30_000)).toEqual({ line: 'port 8080' })
    const controller = new AbortController()
    const { signal } = controller
    const waits = [
      process.waitForExit({ signal }),
      process.waitForLog('x', { signal }),
      process.waitForPort(1, { signal }),
    ]
    const aborted = rejectionsOf(waits)
    controller.abort('enough')
    for (const error of await aborted)
      expect(error).toMatchObject({ name: 'AbortError', cause: 'enough', message: 'the wait was aborted' })
    expect(await rejectionOf(process.waitForExit({ signal }))).toMatchObject({ code: 'ABORT_ERR' })
    expect(await process.getStatus()).toBe('running')
    const early = rejectionOf(process.waitForLog('never'))
    await process.closeInput()
    expect(await early).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'port 8080\n' })
  })

  itHolds('are found by what a terminal shows of a line', async ({ sandbox }) => {
    const vite = '\\033[32m➜\\033[0m ready in \\033[1m250\\033[22m ms'
    const link = '\\033]8;;http://localhost:5173/\\033\\\\here\\033]8;;\\033\\\\!'
    const bar = ' 10%% built\\r100%% built'
    const process = await sandbox.startProcess(`printf '${vite}\\n${link}\\n${bar}\\n'`)
    const raw = '\x1b[32m➜\x1b[0m ready in \x1b[1m250\x1b[22m ms'
    const { line, match } = await process.waitForLog(/ready in (\d+) ms/)
    expect({ line, all: [...(match ?? [])] }).toEqual({ line: raw, all: ['ready in 250 ms', '250'] })
    expect([match?.index, match?.input]).toEqual([2, '➜ ready in 250 ms'])
    expect(await process.waitForLog('ready in 250')).toEqual({ line: raw })
    expect((await process.waitForLog(/.\[1m(.*?).\[22m/)).match?.[1]).toBe('250')
    const waited = await process.waitFor({ log: '^here!$' })
    expect(waited).toMatchObject({
      by: 'log',
      line: { number: 2, text: expect.stringContaining('\x1b]8;;') },
    })
    await process.waitForExit()
    const { lines } = await process.getLogLines({ grep: '^(here!|100% built|➜ ready in 250 ms)$' })
    expect(lines.map(({ text }) => text.length)).toEqual([raw.length, 41, 21])
    const healthCheck = { log: /^➜ ready in \d+ ms$/ }
    expect((await sandbox.startService(`printf '${vite}\\n'; sleep 60`, { healthCheck })).status).toBe(
      'running',
    )
  })

  itHolds('refuse a RegExp whose search can take more than linear time', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo aa')
    for (const pattern of [/(a)\1/, /a(?=a)/, /(?<!b)a/]) {
      const refused = { name: 'OptionError', code: 'INVALID_OPTION' }
      expect(await rejectionOf(process.waitForLog(pattern))).toMatchObject(refused)
      expect(
        await rejectionOf(sandbox.startService('echo aa', { healthCheck: { log: pattern } })),
      ).toMatchObject(refused)
    }
  })

  itHolds('call back, and obey a signal', async ({ sandbox }) => {
    const calls: unknown[] = []
    const controller = new AbortController()
    await sandbox.startProcess('echo x; exec sleep 60', {
      signal: controller.signal,
      onStart: ({ pid }) => calls.push(pid > 0),
      onOutput: (stream, data) => {
        calls.push([stream, data])
        controller.abort()
      },
      onExit: (exitCode, signal) => calls.push([exitCode, signal]),
    })
    await until(
      () => calls.length === 3 || undefined,
      () => JSON.stringify(calls),
    )
    expect(calls).toEqual([true, ['stdout', 'x\n'], [null, 'SIGTERM']])
    const early = new AbortController()
    const start = rejectionOf(sandbox.startProcess('sleep 60', { signal: early.signal }))
    early.abort()
    expect(await start).toMatchObject({ code: 'ABORT_ERR' })
    expect(await sandbox.listProcesses({ status: 'running' })).toEqual([])
  })

  itHolds('keep the exact order of both streams with mergeOutput', async ({ sandbox }) => {
    const command = 'for n in {1..200}; do echo $n; echo -$n >&2; done; exec bash -c "echo a >&2; echo b"'
    const expected = Array.from({ length: 200 }, (_, at) => `${at + 1}\n-${at + 1}\n`).join('')
    const process = await sandbox.startProcess(command, { mergeOutput: true })
    await process.waitForExit({ timeout: 10_000 })
    expect(await process.getLogs()).toEqual({ stdout: `${expected}a\nb\n`, stderr: '' })
    const types = new Set((await all(process.output())).map(({ type }) => type))
    expect([...types]).toEqual(['stdout', 'exit'])
    const service = await sandbox.startService('echo up >&2; sleep 60', {
      mergeOutput: true,
      healthCheck: { log: 'up' },
    })
    expect(await service.getLogs()).toEqual({ stdout: 'up\n', stderr: '' })
    await service.kill()
  })

  itHolds('keep their end when they are cleaned up', async ({ sandbox }) => {
    const ended = await sandbox.startProcess('exit 3', { processId: 'one' })
    const killed = await sandbox.startProcess('sleep 60')
    const service = await sandbox.startService('echo up; sleep 60', { healthCheck: { log: 'up' } })
    const exit = await (await sandbox.getProcess('one'))?.waitForExit()
    await (await sandbox.getProcess(killed.id))?.kill()
    await (await sandbox.getProcess(service.id))?.kill()
    expect(await sandbox.cleanupCompletedProcesses()).toBe(3)
    await using next = await sandbox.createSession()
    const other = await next.startProcess('sleep 60', { processId: 'one' })
    expect(await ended.waitForExit()).toEqual(exit)
    expect(await ended.kill()).toBe(false)
    expect(await killed.waitForExit()).toMatchObject({ reason: 'killed' })
    expect(await killed.kill()).toBe(false)
    expect(await service.waitForExit()).toMatchObject({ reason: 'killed' })
    expect(await service.kill()).toBe(false)
    expect(ended).toMatchObject({ status: 'failed', exitCode: 3 })
    expect(await sandbox.listProcesses()).toHaveLength(1)
    expect(await other.kill()).toBe(true)
  })

  itHolds('call back for each stream, and line by line', async ({ sandbox }) => {
    const calls: string[] = []
    const callbacks = {
      onStdout: (data: string) => calls.push(`out ${JSON.stringify(data)}`),
      onStderr: (data: string) => calls.push(`err ${JSON.stringify(data)}`),
      onLine: (line: string, stream: string) => calls.push(`${stream} ${line}`),
      onExit: () => calls.push('exit'),
    }
    const ended = () =>
      until(
        () => calls.includes('exit') || undefined,
        () => JSON.stringify(calls),
      )
    const process = await sandbox.startProcess("printf 'ä\\r\\nb'; read -r; printf 'c\\n\\nd'; echo e >&2", {
      ...callbacks,
      input: 'pipe',
    })
    await until(
      () => calls.includes('stdout ä') || undefined,
      () => JSON.stringify(calls),
    )
    await process.closeInput()
    await ended()
    const text = (prefix: string) =>
      calls
        .filter((call) => call.startsWith(prefix))
        .map((call) => JSON.parse(call.slice(4)))
        .join('')
    expect([text('out'), text('err')]).toEqual(['ä\r\nbc\n\nd', 'e\n'])
    const linesOf = (stream: string) => calls.filter((call) => call.startsWith(`${stream} `))
    expect(linesOf('stdout')).toEqual(['stdout ä', 'stdout bc', 'stdout ', 'stdout d'])
    expect(linesOf('stderr')).toEqual(['stderr e'])
    expect(calls.at(-1)).toBe('exit')
    calls.length = 0
    const service = await sandbox.startService('echo up; echo half >&2; sleep 60', {
      ...callbacks,
      healthCheck: { log: 'up' },
    })
    await until(
      () => calls.includes('stderr half') || undefined,
      () => JSON.stringify(calls),
    )
    await service.kill()
    await ended()
    expect(calls).toContain('stdout up')
  })

  itHolds('do not call back with output after a callback threw', async ({ sandbox }) => {
    const calls: unknown[] = []
    await sandbox.startProcess('echo a; echo b; exit 3', {
      onLine(line) {
        calls.push(line)
        throw new Error('enough')
      },
      onStdout: () => calls.push('out'),
      onError: (error) => calls.push((error as Error).message),
      onExit(exitCode) {
        throw new Error(`thrown in onExit ${exitCode}`)
      },
    })
    await until(
      () => calls.includes('thrown in onExit 3') || undefined,
      () => JSON.stringify(calls),
    )
    expect(calls).toEqual(['out', 'a', 'enough', 'thrown in onExit 3'])
  })

  itHolds('join no lines over output that the log has dropped', async ({ sandbox, directory }) => {
    const lines: string[] = []
    let ended = false
    await sandbox.startProcess('printf begun; until [ -e go ]; do sleep 0.01; done; seq 100000; touch done', {
      logLimit: 1000,
      onStdout() {
        // Nothing reads the log until the process has printed all.
        writeFileSync(path.join(directory, 'go'), '')
        while (!existsSync(path.join(directory, 'done')))
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
      },
      onLine: (line) => lines.push(line),
      onExit: () => {
        ended = true
      },
    })
    await holds(() => ended)
    expect([lines.at(0), lines.at(-1)]).toEqual(['begun', '100000'])
    expect(lines.length).toBeLessThan(10_000)
  })

  itHolds(
    'are killed by an abort or an error within onStart, which is the rejection',
    async ({ sandbox }) => {
      const controller = new AbortController()
      const start = sandbox.startProcess('sleep 60', {
        processId: 'one',
        signal: controller.signal,
        onStart: () => controller.abort('enough'),
      })
      expect(await rejectionOf(start)).toMatchObject({ name: 'AbortError', cause: 'enough' })
      const error = new Error('thrown in onStart')
      const errors: unknown[] = []
      const throwing = sandbox.startProcess('sleep 60', {
        onStart() {
          throw error
        },
        onError: (reported) => errors.push(reported),
      })
      expect(await rejectionOf(throwing)).toBe(error)
      expect(errors).toEqual([error])
      expect((await sandbox.listProcesses()).map(({ status }) => status)).toEqual(['killed', 'killed'])
    },
  )

  itHolds('leave no listener on a signal, also when a log is never read', async ({ sandbox }) => {
    const { signal } = new AbortController()
    const process = await sandbox.startProcess('true', { signal })
    await process.waitForExit({ signal })
    for (const output of [process.output({ signal }), sandbox.streamProcessLogs('one', { signal })])
      expect(output).toBeDefined()
    await until(
      () => getEventListeners(signal, 'abort').length === 0 || undefined,
      () => `${getEventListeners(signal, 'abort').length} listeners`,
    )
  })

  itHolds('can share one signal by the dozen without a warning', async ({ sandbox }) => {
    const warnings: Error[] = []
    const note = (warning: Error) => warnings.push(warning)
    process.on('warning', note)
    try {
      const controller = new AbortController()
      const { signal } = controller
      const starts = Array.from({ length: 12 }, () => sandbox.startProcess('sleep 60', { signal }))
      const processes = await Promise.all(starts)
      const waits = processes.map((process) => process.waitForExit())
      controller.abort()
      for (const { reason } of await Promise.all(waits)) expect(reason).toBe('killed')
    } finally {
      process.off('warning', note)
    }
    expect(warnings).toEqual([])
  })

  itHolds('reject, and throw nothing, when the sandbox has been destroyed', destroyed, {
    destroys: true,
  })

  itHolds('are killed while their terminal has no room for input', async ({ sandbox }) => {
    const process = await sandbox.startProcess('stty raw -echo; echo on; sleep 60', { pty: true })
    await process.waitForLog('on')
    const pending = process.write('x'.repeat(500_000)).then(
      () => 'written',
      ({ code }) => code,
    )
    // The terminal has taken some of it.
    await process.stats()
    expect(await process.kill()).toBe(true)
    expect(['written', 'INPUT_CLOSED']).toContain(await pending)
    expect((await sandbox.exec('echo on')).stdout).toBe('on\n')
  })

  itHolds('have stats and terminals', async ({ sandbox }) => {
    const process = await sandbox.startProcess('stty size; read -r x; stty size', {
      pty: { cols: 80, rows: 24 },
    })
    await process.waitForLog('24 80')
    expect(await process.resize(100, 30)).toBe(true)
    await process.write('\n')
    await process.waitForExit()
    expect((await process.getLogs()).stdout).toContain('30 100')
    const busy = await sandbox.startProcess('sleep 60 & while :; do :; done')
    const stats = await until(
      async () => {
        const now = await busy.stats()
        return now.cpuTime > 0 && now.pids >= 2 ? now : undefined
      },
      () => 'no processor time was used',
    )
    expect(stats.memory).toBeGreaterThan(100_000)
    expect(stats.memoryPeak).toBeGreaterThanOrEqual(stats.memory)
    expect([stats.ioRead, stats.ioWrite].every((bytes) => bytes >= 0)).toBe(true)
    await busy.kill()
    for (const ended of [process, busy])
      expect(await rejectionOf(ended.stats())).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })
})

describe('services', () => {
  itHolds('start, tell their health and start anew', async ({ sandbox, directory }) => {
    const port = await freePort()
    const status = `existsSync('${directory}/sick') ? 500 : 200`
    const service = await sandbox.startService(serverCommand({ port, status }), {
      processId: 'web',
      healthCheck: { port, path: '/', interval: 20 },
    })
    expect(await service.getHealth()).toMatchObject({ healthy: true, status: 'running', restarts: 0 })
    await sandbox.exec('touch sick')
    expect(await service.getHealth()).toMatchObject({ healthy: false, status: 'running', restarts: 0 })
    await sandbox.exec('rm sick')
    expect((await service.getHealth()).healthy).toBe(true)
    const { pid } = service
    await service.restart()
    expect(service.pid).not.toBe(pid)
    expect(service.restarts + (await service.getHealth()).restarts).toBeGreaterThan(0)
    await service.kill()
    expect(await service.getStatus()).toBe('killed')
    expect(await service.getHealth()).toMatchObject({ healthy: false, status: 'killed' })
    const failing = sandbox.startService('echo no; exit 3', { healthCheck: { log: /ready/ } })
    expect(await rejectionOf(failing)).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'no\n' })
    const ready = await sandbox.startService('echo ready now; sleep 60', { healthCheck: { log: /rea.y/ } })
    expect((await ready.getHealth()).healthy).toBe(true)
    const byCommand = await sandbox.startService('sleep 0.1; touch "$NAME"; sleep 60', {
      ...{ cwd: '.', env: { NAME: 'up' } },
      healthCheck: { command: 'test -e "$NAME"', interval: 10 },
    })
    expect((await byCommand.getHealth()).healthy).toBe(true)
    await sandbox.exec('rm up')
    expect((await byCommand.getHealth()).healthy).toBe(false)
    expect(await rejectionOf(sandbox.startService('true', {} as never))).toMatchObject({
      code: 'INVALID_OPTION',
    })
  })

  itHolds('call back for each of their processes, and obey a signal after a restart', async ({ sandbox }) => {
    const calls: string[] = []
    const called = (...wanted: string[]) =>
      until(
        () => wanted.every((call) => calls.includes(call)) || undefined,
        () => `${JSON.stringify(calls)} lack some of ${JSON.stringify(wanted)}`,
      )
    await sandbox.exec('echo 1 > n')
    const abort = new AbortController()
    const pids = new Set<number>()
    const service = await sandbox.startService(
      'echo "up $(< n)"; until [ -e fail ]; do sleep 0.01; done; rm fail; exit 3',
      {
        processId: 'web',
        healthCheck: { log: 'up' },
        restart: 'on-failure',
        restartDelay: 1,
        signal: abort.signal,
        onStart: ({ pid }) => pids.add(pid),
        onLine: (line) => calls.push(line),
        onExit: (exitCode, signal) => calls.push(`exit ${exitCode ?? signal}`),
      },
    )
    await called('up 1')
    await sandbox.exec('echo 2 > n; touch fail')
    await called('exit 3', 'up 2')
    await holds(async () => (await service.getHealth()).healthy)
    await sandbox.exec('echo 3 > n')
    await service.restart()
    await called('up 3')
    expect(pids.size).toBe(3)
    expect(pids).toContain(service.pid)
    await service.kill()
    await sandbox.exec('echo 4 > n')
    await service.restart()
    await called('up 4')
    calls.length = 0
    abort.abort()
    await called('exit SIGTERM')
    expect(calls).toEqual(['exit SIGTERM'])
    await holds(async () => (await service.getStatus()) === 'killed')
    expect(pids.size).toBe(4)
  })

  itHolds('can be aborted while they start', async ({ sandbox }) => {
    const abort = new AbortController()
    const options = { signal: abort.signal, healthCheck: { log: 'never' }, processId: 'web' }
    const start = rejectionOf(sandbox.startService('sleep 60', options))
    await until(
      async () => (await sandbox.getProcess('web')) ?? undefined,
      () => 'it does not start',
    )
    abort.abort('enough')
    expect(await start).toMatchObject({ code: 'ABORT_ERR', cause: 'enough' })
    await holds(async () => (await sandbox.listProcesses({ status: 'running' })).length === 0)
  })
})
