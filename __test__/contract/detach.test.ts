/** A command that becomes a process is the same here and over HTTP. */
import { describe, expect } from 'vitest'
import { all, textOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { itHolds } from './helper.js'

/** Waits until the command has printed. */
async function printed(events: AsyncIterator<{ type: string }>): Promise<void> {
  for (let step = await events.next(); step.value?.type !== 'stdout'; ) step = await events.next()
}

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
    expect(process).toMatchObject({ sessionId: 'default', status: 'running', exitCode: null, endTime: null })
    expect(await sandbox.getProcess(process.id)).toMatchObject({ id: process.id, pid: process.pid })
    const next = await sandbox.exec('pwd; greet')
    expect(next).toMatchObject({ stdout: '/usr\nhello before\n', sessionRestarted: false })
    const logs = await process.getLogs()
    expect([logs.stdout, logs.stderr]).toEqual(['out\n', 'err\n'])
    await sandbox.exec(`touch ${directory}/go`)
    expect(await process.wait()).toEqual({ exitCode: 7, signal: null, reason: 'exit' })
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
    expect(await stream.result).toMatchObject({ signal: 'SIGHUP', stdout: own, isCanceled: false })
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
      expect(await process.wait()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
    expect((await processes[0]?.getLogs())?.stdout).toMatch(/^begun\n1\n.*\n1000\n$/s)
    expect((await processes[1]?.getLogs({ encoding: 'buffer' }))?.stdout.length).toBe(20_000_000)
    expect(await left.result).toMatchObject({ exitCode: 3, timedOut: false, isCanceled: false })
  })

  itHolds('lets the caller kill the command with the stream', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo begun; sleep 600')
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    const process = await stream.detach()
    expect(await stream.kill()).toBe(true)
    expect(await stream.result).toMatchObject({ signal: 'SIGTERM', isCanceled: true })
    expect(await process.wait()).toMatchObject({ signal: 'SIGTERM', reason: 'killed' })
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
