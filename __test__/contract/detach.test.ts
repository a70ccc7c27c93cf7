/** A command that becomes a process is the same here and over HTTP. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { all, printed, textOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { itHolds } from './helper.js'

describe('ExecStream.detach', () => {
  itHolds('frees the session, and keeps the state before the command', async ({ sandbox, directory }) => {
    await sandbox.exec('cd /usr; name=before; greet() { echo "hello $name"; }')
    const stream = sandbox.execStream(
      `name=after; cd /; echo out; echo err >&2; until [ -e ${directory}/go ]; do sleep 0.01; done; echo end; exit 7`,
    )
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const process = await stream.detach()
    expect(await stream.detach()).toBe(process)
    expect(process).toMatchObject({ sessionId: 'default', status: 'running', exitCode: null })
    expect(await sandbox.getProcess(process.id)).toMatchObject({ id: process.id, pid: process.pid })
    const next = await sandbox.exec('pwd; greet')
    expect(next).toMatchObject({ stdout: '/usr\nhello before\n', sessionRestarted: false })
    await process.waitForLog('err')
    const logs = await process.getLogs()
    expect([logs.stdout, logs.stderr]).toEqual(['out\n', 'err\n'])
    await sandbox.exec(`touch ${directory}/go`)
    expect(await process.waitForExit()).toEqual({ exitCode: 7, signal: null, reason: 'exit' })
    const rest = []
    for (let step = await events.next(); !step.done; step = await events.next()) rest.push(step.value)
    expect(rest.at(-1)).toMatchObject({ type: 'complete', exitCode: 7 })
    expect(textOf(rest)).toBe('end\n')
    expect(await stream.result).toMatchObject({ exitCode: 7, stdout: 'out\nend\n', stderr: 'err\n' })
    expect((await process.getLogs()).stdout).toBe('out\nend\n')
    expect((await all(process.output())).at(-1)).toMatchObject({ type: 'exit', exitCode: 7 })
    expect((await sandbox.exec('greet')).stdout).toBe('hello before\n')
  })

  itHolds('gives a process that is killed with everything it started', async ({ sandbox }) => {
    const { stdout } = await sandbox.exec('sleep 600 & echo $!')
    const stream = sandbox.execStream('sleep 600 & echo $!; sleep 600; echo next')
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const process = await stream.detach()
    const own = (await process.getLogs()).stdout
    const lives = async (pid: string) => (await sandbox.exec(`kill -0 ${pid.trim()} 2> /dev/null`)).success
    expect([await lives(stdout), await lives(own)]).toEqual([true, true])
    expect((await process.stats()).pids).toBeGreaterThan(1)
    expect(await process.kill('SIGHUP')).toBe(true)
    expect(process).toMatchObject({ status: 'killed', exitCode: null, signal: 'SIGHUP' })
    expect([await lives(stdout), await lives(own)]).toEqual([true, false])
    expect(await stream.result).toMatchObject({ signal: 'SIGHUP', stdout: own, cancelled: false })
    await sandbox.exec(`kill ${stdout}`)
  })

  itHolds('lets the process go on when the stream is left or the call is aborted', async ({ sandbox }) => {
    const abort = new AbortController()
    const options = { signal: abort.signal, timeout: 10_000, outputLimit: 100 }
    const left = sandbox.execStream(
      'echo begun; until [ -e go ]; do sleep 0.01; done; seq 1000; exit 3',
      options,
    )
    const processes = []
    for await (const event of left) {
      if (event.type !== 'stdout') continue
      processes.push(await left.detach())
      break
    }
    abort.abort()
    await left[Symbol.asyncDispose]()
    const unread = sandbox.execStream('until [ -e go ]; do sleep 0.01; done; yes | head -c 20000000; exit 3')
    await until(
      async () => {
        const process = await unread.detach().catch(() => undefined)
        if (process !== undefined) processes.push(process)
        return process
      },
      () => 'the command does not begin',
    )
    expect((await sandbox.exec('touch go; echo free')).stdout).toBe('free\n')
    for (const process of processes)
      expect(await process.waitForExit()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect((await processes[0]?.getLogs())?.stdout).toMatch(/^begun\n1\n.*\n1000\n$/s)
    expect((await processes[1]?.getLogs({ encoding: 'buffer' }))?.stdout.length).toBe(20_000_000)
    expect(await left.result).toMatchObject({ exitCode: 3, timedOut: false, cancelled: false })
  })

  itHolds('lets the caller kill the command with the stream', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo begun; sleep 600')
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const process = await stream.detach()
    expect(await stream.kill()).toBe(true)
    expect(await stream.result).toMatchObject({ signal: 'SIGTERM', cancelled: true })
    expect(await process.waitForExit()).toMatchObject({ signal: 'SIGTERM', reason: 'killed' })
  })

  itHolds('asks a program that has replaced the shell to end', async ({ sandbox }) => {
    const stream = sandbox.execStream(
      `echo begun; exec bash -c 'trap "echo cleaned; exit 5" TERM; echo ready; while :; do sleep 0.01; done'`,
    )
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const process = await stream.detach()
    await process.waitForLog('ready')
    await process.kill()
    expect(process).toMatchObject({ exitCode: 5, reason: 'killed' })
    expect((await process.getLogs()).stdout).toBe('begun\nready\ncleaned\n')
  })

  itHolds('says why a command cannot be detached', async ({ sandbox }) => {
    const first = sandbox.execStream('echo begun; until [ -e go ]; do sleep 0.01; done')
    const events = first[Symbol.asyncIterator]()
    await printed(events)
    const queued = sandbox.execStream('touch go')
    expect(await rejectionOf(queued.detach())).toMatchObject({
      code: 'DETACH_FAILED',
      message: expect.stringContaining('it has not begun'),
    })
    await first.detach()
    await queued.result
    await first.result
    expect(await rejectionOf(queued.detach())).toMatchObject({
      code: 'DETACH_FAILED',
      message: expect.stringContaining('it has already ended'),
    })
    expect(await sandbox.listProcesses()).toHaveLength(1)
  })
})

/** Runs until the file `go` is made. The time is long enough for what it prints first. */
const WAITS = 'echo out; echo err >&2; until [ -e $OLDPWD/go ]; do sleep 0.01; done; echo end; exit 7'
const LONG_ENOUGH = 500

describe('exec with detachAfter', () => {
  itHolds('resolves with the output so far, and frees the session', async ({ sandbox }) => {
    await sandbox.exec('cd /usr; name=before')
    const completed: unknown[] = []
    const result = await sandbox.exec(`name=after; ${WAITS}`, {
      ...{ detachAfter: LONG_ENOUGH, check: true, lines: true },
      onComplete: (value) => completed.push(value),
    })
    expect(result).toMatchObject({ success: false, exitCode: null, signal: null, cwd: '/usr' })
    expect(result).toMatchObject({ stdout: ['out'], stderr: ['err'], timedOut: false, cancelled: false })
    expect(result.all).toHaveLength(2)
    expect(completed).toEqual([result])
    const { process } = result
    expect(process).toMatchObject({ sessionId: 'default', status: 'running', exitCode: null })
    expect((await sandbox.exec('echo $PWD $name')).stdout).toBe('/usr before\n')
    await sandbox.exec('touch $OLDPWD/go')
    expect(await process?.waitForExit()).toEqual({ exitCode: 7, signal: null, reason: 'exit' })
    expect(await process?.getLogs()).toMatchObject({ stdout: 'out\nend\n', stderr: 'err\n' })
    expect(await sandbox.getProcess(process?.id ?? '')).toMatchObject({ id: process?.id, exitCode: 7 })
  })

  itHolds('changes nothing for a command that ends in time', async ({ sandbox }) => {
    const result = await sandbox.exec('cd /usr; exit 3', { detachAfter: 60_000 })
    expect(result).toMatchObject({ exitCode: 3, cwd: '/usr' })
    expect('process' in result).toBe(false)
    expect(await sandbox.listProcesses()).toEqual([])
    const failed = sandbox.exec('exit 3', { detachAfter: 60_000, check: true })
    expect(await rejectionOf(failed)).toMatchObject({ code: 'COMMAND_FAILED' })
    const late = sandbox.exec('sleep 600', { detachAfter: 60_000, timeout: 50 })
    expect(await rejectionOf(late)).toMatchObject({ code: 'COMMAND_TIMEOUT' })
  })

  itHolds('lets the timeout go on, and kill the process', async ({ sandbox }) => {
    const command = 'trap "" TERM; echo ready; while :; do sleep 600; done'
    // It may come before the command is detached, or before its trap.
    const run = async (timeout: number) => {
      const options = { detachAfter: 10, timeout, forceKillAfterDelay: 10 }
      const { process } = await sandbox.exec(command, options).catch((error) => {
        expect(error).toMatchObject({ code: 'COMMAND_TIMEOUT' })
        return { process: undefined }
      })
      return { exit: await process?.waitForExit(), printed: (await process?.getLogs())?.stdout }
    }
    const { exit } = await inTime(400, run, (end) => end.printed === 'ready\n')
    expect(exit).toEqual({ exitCode: null, signal: 'SIGKILL', reason: 'timeout' })
  })

  itHolds('ends for its AbortSignal and its callbacks when the call ends', async ({ sandbox, directory }) => {
    const abort = new AbortController()
    const aborted = sandbox.exec('sleep 600', {
      detachAfter: 60_000,
      signal: abort.signal,
      onStart: () => abort.abort(),
    })
    expect(await rejectionOf(aborted)).toMatchObject({ name: 'AbortError' })
    const later = new AbortController()
    const seen: string[] = []
    const command = 'echo out; until [ -e go ]; do sleep 0.01; done; seq 100000; exit 5'
    const { process, stdout } = await sandbox.exec(command, {
      ...{ detachAfter: LONG_ENOUGH, signal: later.signal, outputLimit: 100 },
      onOutput: (_, data) => seen.push(data),
    })
    later.abort()
    expect(stdout).toBe('out\n')
    writeFileSync(path.join(directory, 'go'), '')
    expect(await process?.waitForExit()).toEqual({ exitCode: 5, signal: null, reason: 'exit' })
    expect(seen).toEqual(['out\n'])
    expect((await process?.getLogs())?.stdout).toMatch(/^out\n1\n.*\n100000\n$/s)
  })

  itHolds('kills the command, whichever is first: the end of its stream or the kill', async ({ sandbox }) => {
    for (let round = 0; round < 20; round++) {
      const stream = sandbox.execStream('echo begun; exec sleep 600', { detachAfter: 20 })
      const events = stream[Symbol.asyncIterator]()
      await printed(events)
      // The timers of the two meet.
      await new Promise((resolve) => setTimeout(resolve, 8 + round))
      expect(await stream.kill()).toBe(true)
      expect(await stream.kill()).toBe(true)
      const { process, cancelled, signal } = await stream.result
      if (process === undefined) expect([cancelled, signal]).toEqual([true, 'SIGTERM'])
      else expect(await process.waitForExit()).toMatchObject({ signal: 'SIGTERM', reason: 'killed' })
    }
  })

  itHolds('shows what maxBuffer has kept', async ({ sandbox }) => {
    const options = { detachAfter: LONG_ENOUGH, maxBuffer: 40 }
    const { process, ...result } = await sandbox.exec('seq 100; sleep 600', options)
    expect(result.stdout).toMatch(/^1\n2\n.*\n\[\d+ bytes omitted\]\n.*\n99\n100\n$/s)
    expect(result.truncated).toEqual({ stdout: expect.any(Number), stderr: 0 })
    await process?.kill()
    expect((await process?.getLogs())?.truncated).toBe(292 - 40)
  })

  itHolds('ends the stream of execStream, and not its input', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo out; cat', { detachAfter: LONG_ENOUGH, input: 'pipe' })
    const events = await all(stream)
    expect(events.at(-1)).toMatchObject({ type: 'complete', exitCode: null, signal: null })
    expect(textOf(events)).toBe('out\n')
    const { process, stdout } = await stream.result
    expect(stdout).toBe('out\n')
    expect(await stream.detach()).toBe(process)
    await stream[Symbol.asyncDispose]()
    await stream.write('one ')
    await process?.write('two ')
    await stream.write('three')
    await stream.closeInput()
    expect(await process?.waitForExit()).toMatchObject({ exitCode: 0 })
    expect((await process?.getLogs())?.stdout).toBe('out\none two three')
    expect(await rejectionOf(stream.write('more'))).toMatchObject({ code: 'INPUT_CLOSED' })
  })

  itHolds('ends as the process does, for the stream', async ({ sandbox, directory }) => {
    const command = `echo out; until [ -e ${directory}/go ]; do sleep 0.01; done; cat; echo end; exit 7`
    for (const logLimit of [undefined, 100_000]) {
      const stream = sandbox.execStream(command, { detachAfter: LONG_ENOUGH, input: 'pipe', logLimit })
      const { process } = await stream.result
      expect(await stream.waitFor({ timeout: 30 })).toEqual({ by: 'timeout' })
      if (logLimit !== undefined) expect((await stream.getLogs()).stdout).toBe('out\n')
      const input = stream.waitForInput()
      await sandbox.files.write(`${directory}/go`, '')
      expect(await input).toMatchObject({ program: 'cat' })
      expect(await stream.waiting()).toMatchObject({ program: 'cat' })
      await stream.closeInput()
      const exit = { exitCode: 7, signal: null, reason: 'exit' }
      expect(await stream.waitFor()).toEqual({ by: 'exit', exit })
      expect(await stream.waiting()).toBeNull()
      expect(await process?.waitForExit()).toEqual(exit)
      if (logLimit !== undefined)
        expect(await stream.waitFor({ log: '^end' })).toMatchObject({ by: 'log', line: { number: 2 } })
      await sandbox.files.remove(`${directory}/go`)
    }
  })

  itHolds('may have its time while the caller detaches the command', async ({ sandbox }) => {
    for (let round = 0; round < 20; round++) {
      const stream = sandbox.execStream('echo begun; sleep 600', { detachAfter: 20 + (round % 5) })
      const events = stream[Symbol.asyncIterator]()
      await printed(events)
      await pause(17 + (round % 7))
      const process = await stream.detach()
      expect(process.status).toBe('running')
      await process.kill()
      const result = await stream.result
      if (result.process !== undefined) expect(result.process).toBe(process)
      else expect(result.signal).toBe('SIGTERM')
    }
  })

  itHolds('takes input and ends also while nothing reads its stream', async ({ sandbox }) => {
    const command = 'for i in $(seq 40); do echo $i; sleep 0.01; done; cat > /dev/null; exit 5'
    const stream = sandbox.execStream(command, { detachAfter: 2 * LONG_ENOUGH, input: 'pipe' })
    await holds(async () => (await sandbox.listProcesses()).length)
    expect(await stream.waitFor({ timeout: 30 })).toEqual({ by: 'timeout' })
    await stream.write('more')
    await stream.closeInput()
    expect(await stream.waitFor()).toMatchObject({ by: 'exit', exit: { exitCode: 5 } })
    const { process } = await stream.result
    expect(await process?.waitForExit()).toMatchObject({ exitCode: 5 })
    expect((await process?.getLogLines())?.total).toBe(40)
  })

  itHolds('completes when the process is forgotten by then', async ({ sandbox }) => {
    const stream = sandbox.execStream('head -c 20000000 /dev/zero', {
      detachAfter: 300,
      maxBuffer: 1000,
    })
    await holds(async () => await sandbox.cleanupCompletedProcesses())
    expect((await all(stream)).at(-1)).toMatchObject({ type: 'complete', exitCode: null })
    expect((await stream.result).process).toBeDefined()
  })

  itHolds('goes on with the input that the command had not read', async ({ sandbox }) => {
    const command = 'until [ -e go ]; do sleep 0.01; done; wc -c'
    const { process } = await sandbox.exec(command, { detachAfter: 10, input: Buffer.alloc(3_000_000) })
    await sandbox.exec('touch go')
    expect(await process?.waitForExit()).toMatchObject({ exitCode: 0 })
    expect((await process?.getLogs())?.stdout.trim()).toBe('3000000')
  })

  itHolds('gives a process that ends with its session', async ({ sandbox }) => {
    const session = await sandbox.createSession()
    const { process } = await session.exec('sleep 600', { detachAfter: 10 })
    await sandbox.deleteSession(session.id)
    expect(await process?.waitForExit()).toMatchObject({ reason: 'killed' })
  })

  itHolds('refuses what cannot be', async ({ sandbox }) => {
    const iterable = { async *[Symbol.asyncIterator]() {} }
    expect(await rejectionOf(sandbox.exec('cat', { detachAfter: 10, input: iterable }))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining("execStream with input: 'pipe'"),
    })
  })
})
