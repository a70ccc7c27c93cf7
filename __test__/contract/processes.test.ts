/** Background processes and services are the same here and over HTTP. */
import { getEventListeners } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect } from 'vitest'
import { freePort, serverCommand } from '../helpers/serving.js'
import { all } from '../helpers/stream.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
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
    await process.wait({ timeout: 10_000 })
    expect((await process.getLogs()).stdout).toBe('24 80\r\n')
    const plain = await sandbox.startProcess('[ -t 1 ] || echo none', { pty: false })
    await plain.wait({ timeout: 10_000 })
    expect((await plain.getLogs()).stdout).toBe('none\n')
  })

  itHolds('start from the session, and report their end', async ({ sandbox, directory }) => {
    await sandbox.exec('X=5; cd /tmp')
    const process = await sandbox.startProcess('echo $X; pwd; exit 3', { processId: 'one', env: { Y: 'y' } })
    expect(process).toMatchObject({ id: 'one', sessionId: 'default', command: 'echo $X; pwd; exit 3' })
    expect(await process.wait()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect(process).toMatchObject({ state: 'exited', exitCode: 3, reason: 'exit' })
    expect(process.endedAt).toBeInstanceOf(Date)
    expect(await process.getLogs()).toEqual({ stdout: '5\n/tmp\n', stderr: '' })
    expect(await process.wait({ timeout: 5000 })).toMatchObject({ exitCode: 3 })
    expect((await sandbox.startProcess('pwd', { cwd: directory })).id).toMatch(/^proc-/)
    expect(await rejectionOf(sandbox.startProcess('true', { processId: 'one' }))).toMatchObject({
      code: 'PROCESS_ALREADY_EXISTS',
    })
  })

  itHolds('have null for unknown properties', async ({ sandbox }) => {
    const process = await sandbox.startProcess('sleep 60')
    const unknown = { exitCode: null, signal: null, reason: null, endedAt: null }
    expect(process.toJSON()).toMatchObject(unknown)
    expect((await sandbox.getProcess(process.id))?.toJSON()).toMatchObject({ state: 'running', ...unknown })
    await process.kill()
    expect(process.toJSON()).toMatchObject({ endedAt: expect.any(Date), reason: 'killed', exitCode: null })
    const service = await sandbox.startService('echo up; sleep 60', { healthCheck: { log: 'up' } })
    expect(service.lastFailure).toBeNull()
    expect(await service.getHealth()).toEqual({
      healthy: true,
      state: 'running',
      restarts: 0,
      lastFailure: null,
    })
    await service.kill()
  })

  itHolds('are listed, found, killed and forgotten', async ({ sandbox }) => {
    const one = await sandbox.startProcess('sleep 60', { processId: 'one' })
    await sandbox.startProcess("trap '' TERM; echo on; sleep 60 & wait; wait", {
      processId: 'two',
      forceKillAfterDelay: 50,
    })
    expect((await sandbox.listProcesses({ state: 'running' })).map(({ id }) => id)).toEqual(['one', 'two'])
    expect(await sandbox.listProcesses({ sessionId: 'other' })).toEqual([])
    expect((await sandbox.getProcess('one'))?.pid).toBe(one.pid)
    expect(await sandbox.getProcess('none')).toBeNull()
    expect(await sandbox.killProcess('one', 'SIGINT')).toBe(true)
    expect(await sandbox.killProcess('one')).toBe(false)
    expect(await one.refresh()).toMatchObject({ id: one.id, state: 'killed' })
    expect(one.signal).toBe('SIGINT')
    await (await sandbox.getProcess('two'))?.waitForLog('on')
    expect(await sandbox.killAllProcesses()).toBe(1)
    expect(await sandbox.getProcess('two')).toMatchObject({ signal: 'SIGKILL', reason: 'killed' })
    expect(await sandbox.forgetEndedProcesses()).toBe(2)
    for (const error of await rejectionsOf([sandbox.killProcess('one'), sandbox.getProcessLogs('one')]))
      expect(error).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })

  itHolds('do nothing to another process with their id, once they are forgotten', async ({ sandbox }) => {
    const options = { processId: 'mine', input: 'pipe' } as const
    const old = await sandbox.startProcess('echo old', options)
    await old.wait()
    expect(await sandbox.forgetEndedProcesses()).toBe(1)
    const other = await sandbox.startProcess('cat; echo over', options)
    expect(await rejectionOf(old.write('x\n'))).toMatchObject({ code: 'INPUT_CLOSED' })
    const calls = [old.getLogs(), old.waitForLog('over'), old.stats(), all(old.output())]
    for (const error of await Promise.all(calls.map(rejectionOf)))
      expect(error).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(await old.kill()).toBe(false)
    await old.closeInput()
    expect(await old.wait()).toMatchObject({ exitCode: 0 })
    await other.write('y\n')
    await other.closeInput()
    expect(await other.wait()).toMatchObject({ exitCode: 0 })
    expect((await other.getLogs()).stdout).toBe('y\nover\n')
  })

  itHolds('read written input', async ({ sandbox }) => {
    const process = await sandbox.startProcess('cat; echo end', { input: 'pipe' })
    await process.write('a\n')
    await process.write(new Uint8Array([0, 255, 10]))
    await process.closeInput()
    await process.wait()
    const { stdout } = await process.getLogs({ encoding: 'buffer' })
    expect(Array.from(stdout)).toEqual([97, 10, 0, 255, 10, 101, 110, 100, 10])
    expect(await rejectionOf(process.write('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
    const fed = await sandbox.startProcess('cat', { input: new Blob(['x'.repeat(100_000)]).stream() })
    await fed.wait()
    expect((await fed.getLogs()).stdout).toHaveLength(100_000)
    const none = await sandbox.startProcess('cat')
    expect(await rejectionOf(none.write('x'))).toMatchObject({ code: 'INVALID_OPTION' })
  })

  itHolds('have logs that can be followed from anywhere', async ({ sandbox }) => {
    const process = await sandbox.startProcess(
      'for i in 1 2 3; do echo "line $i ä"; sleep 0.02; done; exit 3',
    )
    const events = await all(process.output())
    const text = (list: typeof events) => list.map((event) => ('data' in event ? event.data : '')).join('')
    expect(text(events)).toBe('line 1 ä\nline 2 ä\nline 3 ä\n')
    expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 3, signal: null, reason: 'exit' })
    const cursor = events[0] && 'cursor' in events[0] ? events[0].cursor : 0
    expect(text(await all(sandbox.streamProcessLogs(process.id, { cursor: cursor })))).toBe(
      text(events.slice(1)),
    )
    expect(text(await all(process.output({ follow: false })))).toBe(text(events))
    const unknown = sandbox.streamProcessLogs('none')
    expect(await rejectionOf(unknown.next())).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    const quiet = await sandbox.startProcess('sleep 60')
    const controller = new AbortController()
    const waiting = rejectionOf(quiet.output({ signal: controller.signal }).next())
    controller.abort('enough')
    expect(await waiting).toMatchObject({ name: 'AbortError', cause: 'enough' })
    const left = quiet.output()
    const next = left.next()
    await left.return?.()
    expect(await next).toEqual({ done: true, value: undefined })
    expect((await quiet.refresh()).state).toBe('running')
  })

  itHolds('are waited for', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo "port 8080"; read -r x; exit 4', { input: 'pipe' })
    const { line, match } = await process.waitForLog(/port (\d+)/)
    expect([line, match?.[1]]).toEqual(['port 8080', '8080'])
    expect(await rejectionOf(process.wait({ timeout: 50 }))).toMatchObject({
      code: 'PROCESS_READY_TIMEOUT',
      logTail: 'port 8080\n',
    })
    const controller = new AbortController()
    const waiting = rejectionOf(process.waitForPort(1, { signal: controller.signal }))
    controller.abort('enough')
    expect(await waiting).toMatchObject({ name: 'AbortError', cause: 'enough' })
    const early = rejectionOf(process.waitForLog('never'))
    await process.closeInput()
    expect(await early).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'port 8080\n' })
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
    const error = await rejectionOf(sandbox.startProcess('true', { signal: AbortSignal.abort('no') }))
    expect(error).toMatchObject({ name: 'AbortError', cause: 'no' })
  })

  itHolds('keep the exact order of both streams with mergeOutput', async ({ sandbox }) => {
    const command = 'for n in {1..200}; do echo $n; echo -$n >&2; done; exec bash -c "echo a >&2; echo b"'
    const expected = Array.from({ length: 200 }, (_, at) => `${at + 1}\n-${at + 1}\n`).join('')
    const process = await sandbox.startProcess(command, { mergeOutput: true })
    await process.wait({ timeout: 10_000 })
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
    const exit = await (await sandbox.getProcess('one'))?.wait()
    await (await sandbox.getProcess(killed.id))?.kill()
    await (await sandbox.getProcess(service.id))?.kill()
    expect(await sandbox.forgetEndedProcesses()).toBe(3)
    await using next = await sandbox.createSession()
    const other = await next.startProcess('sleep 60', { processId: 'one' })
    expect(await ended.wait()).toEqual(exit)
    expect(await ended.kill()).toBe(false)
    expect(await killed.wait()).toMatchObject({ reason: 'killed' })
    expect(await killed.kill()).toBe(false)
    expect(await service.wait()).toMatchObject({ reason: 'killed' })
    expect(await service.kill()).toBe(false)
    expect(ended).toMatchObject({ state: 'exited', exitCode: 3 })
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
      onExit: (exitCode) => calls.push(exitCode),
    })
    await until(
      () => calls.includes(3) || undefined,
      () => JSON.stringify(calls),
    )
    expect(calls).toEqual(['out', 'a', 'enough', 3])
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
    await until(
      () => ended || undefined,
      () => 'the process has not ended',
    )
    expect([lines.at(0), lines.at(-1)]).toEqual(['begun', '100000'])
    expect(lines.length).toBeLessThan(10_000)
  })

  itHolds('are killed by an abort within onStart, which is the rejection', async ({ sandbox }) => {
    const controller = new AbortController()
    const start = sandbox.startProcess('sleep 60', {
      processId: 'one',
      signal: controller.signal,
      onStart: () => controller.abort('enough'),
    })
    expect(await rejectionOf(start)).toMatchObject({ name: 'AbortError', cause: 'enough' })
    expect(await sandbox.getProcess('one')).toMatchObject({ state: 'killed' })
  })

  itHolds('leave no listener on a signal, also when a log is never read', async ({ sandbox }) => {
    const { signal } = new AbortController()
    const process = await sandbox.startProcess('true', { signal })
    await process.wait({ signal })
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
      const waits = processes.map((process) => process.wait())
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
    expect(await process.stats()).toMatchObject({ pids: expect.any(Number), memory: expect.any(Number) })
    expect(await process.resize(100, 30)).toBe(true)
    await process.write('\n')
    await process.wait()
    expect((await process.getLogs()).stdout).toContain('30 100')
    expect(await rejectionOf(process.stats())).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })
})

describe('services', () => {
  itHolds('start, tell their health and start anew', async ({ sandbox }) => {
    const port = await freePort()
    const service = await sandbox.startService(serverCommand({ port }), {
      processId: 'web',
      healthCheck: { port, path: '/', interval: 20 },
    })
    expect(await service.getHealth()).toMatchObject({ healthy: true, state: 'running', restarts: 0 })
    const { pid } = service
    await service.restart()
    expect(service.pid).not.toBe(pid)
    expect(service.restarts + (await service.getHealth()).restarts).toBeGreaterThan(0)
    await service.kill()
    expect((await service.refresh()).state).toBe('killed')
    const failing = sandbox.startService('echo no; exit 3', { healthCheck: { log: /ready/ } })
    expect(await rejectionOf(failing)).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY', logTail: 'no\n' })
    const ready = await sandbox.startService('echo ready now; sleep 60', { healthCheck: { log: /rea.y/ } })
    expect((await ready.getHealth()).healthy).toBe(true)
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
    await until(
      async () => (await service.getHealth()).healthy || undefined,
      () => 'the service is not healthy again',
    )
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
    await until(
      async () => (await service.refresh()).state === 'killed' || undefined,
      () => 'the service goes on',
    )
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
    abort.abort()
    expect(await start).toMatchObject({ code: 'ABORT_ERR' })
    await until(
      async () => (await sandbox.listProcesses({ state: 'running' })).length === 0 || undefined,
      () => 'it runs on',
    )
  })
})
