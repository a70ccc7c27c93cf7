/** execStream is the same here and over HTTP. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { ExecEvent, ExecOptions } from 'nacre'
import { describe, expect } from 'vitest'
import { all, endOf, printed, shapeOf, textOf } from '../helpers/stream.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { itHolds } from './helper.js'

describe('execStream', () => {
  itHolds('gives whole characters in order, with cursors, and the result', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'own' })
    const wait = (name: string) => `until [ -e ${name} ]; do sleep 0.01; done`
    const command = `echo $$; printf 'a\\xe2'; ${wait('b')}; printf '\\x82'; printf e >&2; ${wait('c')}; printf '\\xac\\xff\\xc3'; exit 3`
    const stream = session.execStream(command)
    const events: ExecEvent[] = []
    for await (const event of stream) {
      events.push(event)
      expect(event.time).toBeInstanceOf(Date)
      if (textOf(events).endsWith('a')) await sandbox.exec('touch b')
      if (textOf([event], 'stderr') === 'e') await sandbox.exec('touch c')
    }
    const result = await stream.result
    const pid = Number.parseInt(result.stdout, 10)
    const length = String(pid).length + 1
    expect(events[0]).toMatchObject({ type: 'start', command, sessionId: 'own', pid })
    expect(result).toMatchObject({
      stdout: `${pid}\na€\ufffd\ufffd`,
      stderr: 'e',
      all: `${pid}\nae€\ufffd\ufffd`,
    })
    const output = events.flatMap((event) =>
      'data' in event ? [[event.type, event.data, event.cursor]] : [],
    )
    expect(output.slice(-3)).toEqual([
      ['stderr', 'e', 1],
      ['stdout', '€\ufffd', length + 5],
      ['stdout', '\ufffd', length + 6],
    ])
    expect(textOf(events)).toBe(result.stdout)
    const last = events.at(-1)
    expect(last).toMatchObject({ type: 'complete', exitCode: 3, signal: null })
    expect(last?.type === 'complete' && last.result).toBe(result)
  })

  itHolds('completes however the command ends', async ({ sandbox }) => {
    const ends: Array<[string, object, string?]> = [
      ['exit 7', { exitCode: 7 }],
      ['set -e; false', { exitCode: 1 }],
      ['kill $$', { exitCode: 143 }],
      ['exec false', { exitCode: 1, result: { sessionRestarted: true } }],
      ["trap 'echo bye' EXIT; echo hi; exit 4", { exitCode: 4 }, 'hi\nbye\n'],
      ['echo last; kill -9 $$', { signal: 'SIGKILL', result: { sessionRestarted: true } }, 'last\n'],
    ]
    for (const [command, end, text = ''] of ends) {
      await using session = await sandbox.createSession()
      const events = await all(session.execStream(command))
      expect(events.at(-1), command).toMatchObject({ type: 'complete', ...end })
      expect([shapeOf(events), textOf(events)]).toEqual([
        text === '' ? 'start complete' : 'start stdout complete',
        text,
      ])
    }
  })

  itHolds('gives lines', async ({ sandbox, directory }) => {
    const lines = (command: string, options?: { from?: 'stderr' | 'all' }) =>
      all(sandbox.execStream(command).lines(options))
    const text = "printf 'a\\n\\nb\\r\\nc\\rd\\n e'; echo no >&2"
    expect(await lines(text)).toEqual(['a', '', 'b', 'c\rd', ' e'])
    expect([await lines('echo'), await lines('true'), await lines("printf 'x\\r'")]).toEqual([
      [''],
      [],
      ['x\r'],
    ])
    expect(await lines('echo o; echo e >&2', { from: 'stderr' })).toEqual(['e'])
    const bytes = sandbox.execStream("printf 'ü\\n\\xff\\n'", { encoding: 'buffer' })
    expect(await all(bytes.lines())).toEqual(['ü', '\ufffd'])
    const step = (name: string) => `until [ -e ${directory}/${name} ]; do sleep 0.01; done`
    const command = `printf 'o1\\no'; ${step('a')}; printf 'e1\\ne' >&2; ${step('b')}; echo 2; printf '2' >&2`
    await using other = await sandbox.createSession()
    const seen: string[] = []
    for await (const line of sandbox.execStream(command).lines({ from: 'all' })) {
      seen.push(line)
      if (line === 'o1') await other.exec('touch a')
      if (line === 'e1') await other.exec('touch b')
    }
    expect(seen).toEqual(['o1', 'e1', 'o2', 'e2'])
  })

  itHolds('gives lines that are requested in advance, before the error of the run', async ({ sandbox }) => {
    const lines = sandbox.execStream('seq 2; printf b; exit 3', { check: true }).lines()
    const steps = [lines.next(), lines.next(), lines.next()]
    expect((await Promise.all(steps)).map(({ value }) => value)).toEqual(['1', '2', 'b'])
    expect(await rejectionOf(lines.next())).toMatchObject({ code: 'COMMAND_FAILED', result: { exitCode: 3 } })
    expect(await lines.next()).toEqual({ done: true, value: undefined })
  })

  itHolds('is a ReadableStream of bytes, with the error of the run', async ({ sandbox }) => {
    const read = async (from?: 'stdout' | 'stderr' | 'all') =>
      Buffer.concat(
        await all(sandbox.execStream("printf 'o\\xff'; echo e >&2; exit 3").toReadableStream({ from })),
      )
    expect([...(await read())]).toEqual([0x6f, 0xff])
    expect(String(await read('stderr'))).toBe('e\n')
    expect(await read('all')).toHaveLength(4)
    await using other = await sandbox.createSession()
    const input = new Response(sandbox.execStream('seq 1000000').toReadableStream()).body
    expect((await other.exec('wc -lc', { input: input ?? '' })).stdout.trim()).toMatch(/^1000000 +6888896$/)
    const controller = new AbortController()
    const stream = sandbox.execStream('echo x; sleep 60', { signal: controller.signal })
    const reader = stream.toReadableStream().getReader()
    expect(Buffer.from((await reader.read()).value ?? []).toString()).toBe('x\n')
    controller.abort()
    const rejection = await rejectionOf(reader.read())
    expect(rejection).toMatchObject({ code: 'ABORT_ERR' })
    expect(await rejectionOf(stream.result)).toBe(rejection)
  })

  itHolds('has one reader', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo x')
    const events = stream[Symbol.asyncIterator]()
    const readers = [
      () => stream[Symbol.asyncIterator](),
      () => stream.lines(),
      () => stream.toReadableStream(),
    ]
    for (const reader of readers)
      expect(thrownBy(reader)).toMatchObject({
        ...{ name: 'OptionError', code: 'STREAM_LOCKED', message: expect.stringContaining('iterated') },
      })
    expect(shapeOf(await all({ [Symbol.asyncIterator]: () => events }))).toBe('start stdout complete')
    expect(thrownBy(() => stream[Symbol.asyncIterator]())).toMatchObject({ code: 'STREAM_LOCKED' })
  })

  itHolds('ends with an error that result rejects with', async ({ sandbox }) => {
    const abort = new AbortController()
    const reason = new Error('enough')
    const onStdout = () => abort.abort(reason)
    const failures: Array<[string, ExecOptions, object, string]> = [
      [
        'echo x; sleep 60',
        { timeout: 1000 },
        { code: 'COMMAND_TIMEOUT', result: { stdout: 'x\n' } },
        'start stdout error',
      ],
      ['echo x; false', { check: true }, { code: 'COMMAND_FAILED' }, 'start stdout error'],
      ['true', { cwd: '/proc/nowhere' }, { code: 'CWD_NOT_FOUND' }, '(start )?error'],
      ['true', { sessionId: 'none' }, { code: 'SESSION_NOT_FOUND' }, 'error'],
      ['true', { signal: AbortSignal.abort() }, { code: 'ABORT_ERR' }, 'error'],
      [
        'echo x; sleep 60',
        { signal: abort.signal, onStdout },
        { name: 'AbortError', cause: reason, result: { stdout: 'x\n' } },
        'start stdout error',
      ],
    ]
    for (const [command, options, error, shape] of failures) {
      const stream = sandbox.execStream(command, options)
      const events = await all(stream)
      expect(shapeOf(events)).toMatch(new RegExp(`^${shape}$`))
      expect(endOf(events)).toMatchObject(error)
      expect(endOf(events)).toBe(await rejectionOf(stream.result))
    }
    expect(thrownBy(() => sandbox.execStream(''))).toMatchObject({ code: 'INVALID_COMMAND' })
  })

  itHolds('is killed by kill, without an error', async ({ sandbox }) => {
    const begun = async (options?: ExecOptions) => {
      const stream = sandbox.execStream('echo x; sleep 60', options)
      await printed(stream[Symbol.asyncIterator]())
      return stream
    }
    const stream = await begun()
    for (const signal of ['SIGFOO', 0, 99, null])
      expect(await rejectionOf(stream.kill(signal as never))).toMatchObject({
        ...{ name: 'OptionError', code: 'INVALID_OPTION', message: expect.stringContaining('signal') },
      })
    expect(await Promise.all([stream.kill('SIGINT'), stream.kill()])).toEqual([true, true])
    expect(await stream.result).toMatchObject({ signal: 'SIGINT', cancelled: true, stdout: 'x\n' })
    expect(await stream.kill()).toBe(true)
    const checked = await begun({ check: true })
    await checked.kill(9)
    const message = expect.stringContaining('ended by SIGKILL')
    expect(await rejectionOf(checked.result)).toMatchObject({ code: 'COMMAND_FAILED', message })
    const ended = sandbox.execStream('exit 3')
    const result = await ended.result
    expect(await ended.kill()).toBe(false)
    expect(result).toMatchObject({ exitCode: 3, cancelled: false })
    expect(await ended.result).toBe(result)
  })

  itHolds(
    'never runs when it is left or killed while it waits for its turn',
    async ({ sandbox, directory }) => {
      const first = sandbox.exec('until [ -e go ]; do sleep 0.01; done')
      const killed = sandbox.execStream('touch ran')
      const checked = sandbox.execStream('touch ran', { check: true })
      const left = sandbox.execStream('touch ran')
      const events = killed[Symbol.asyncIterator]()
      expect(await killed.kill()).toBe(true)
      expect(shapeOf(await all({ [Symbol.asyncIterator]: () => events }))).toBe('complete')
      expect(Math.abs(Date.now() - Date.parse((await killed.result).timestamp))).toBeLessThan(60_000)
      expect(await killed.result).toMatchObject({
        ...{
          success: false,
          exitCode: null,
          signal: null,
          stdout: '',
          stderr: '',
          all: '',
          cancelled: true,
        },
        ...{ command: 'touch ran', sessionId: 'default', timedOut: false, duration: 0 },
      })
      expect(await killed.kill()).toBe(true)
      expect(await checked.kill()).toBe(true)
      expect(await rejectionOf(checked.result)).toMatchObject({
        ...{ code: 'COMMAND_FAILED', message: '`touch ran` was killed before it started, after 0 ms' },
        result: { cancelled: true },
      })
      await left[Symbol.asyncDispose]()
      expect(await left.result).toMatchObject({ cancelled: true, exitCode: null, signal: null, duration: 0 })
      writeFileSync(path.join(directory, 'go'), '')
      await first
      expect((await sandbox.exec('ls')).stdout).toBe('go\n')
    },
  )

  itHolds('holds the command back when nothing reads, and loses nothing', async ({ sandbox }) => {
    const stream = sandbox.execStream('seq 6000000; touch done', { encoding: 'buffer', maxBuffer: 0 })
    const events = stream[Symbol.asyncIterator]()
    let bytes = 0
    let ended = false
    const take = async () => {
      const { value } = await events.next()
      if (value?.type === 'stdout') bytes += value.data.length
      ended = value?.type === 'complete'
    }
    while (bytes === 0) await take()
    // Another session looks: this one is held up.
    await using other = await sandbox.createSession()
    let before = -1
    await until(
      async () => {
        const { stdout } = await other.exec('[ -e done ] && echo done || echo waits')
        before++
        return before > 20 ? stdout : undefined
      },
      () => 'the other session does not answer',
    ).then((state) => expect(state).toBe('waits\n'))
    expect(textOf(await all(other.execStream('seq 200000')))).toMatch(/\n199999\n200000\n$/)
    while (!ended) await take()
    expect(bytes).toBe(46_888_896)
  })
})
