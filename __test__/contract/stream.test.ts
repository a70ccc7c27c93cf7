/** execStream is the same here and over HTTP. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect } from 'vitest'
import { all, printed, shapeOf, textOf } from '../helpers/stream.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { itHolds } from './helper.js'

describe('execStream', () => {
  itHolds('gives events in order, with cursors, and the result', async ({ sandbox }) => {
    const stream = sandbox.execStream("printf 'ä'; sleep 0.05; echo b; echo c >&2; exit 3")
    const events = await all(stream)
    expect(events[0]).toMatchObject({ type: 'start', sessionId: 'default', pid: expect.any(Number) })
    expect(textOf(events)).toBe('äb\n')
    expect(textOf(events, 'stderr')).toBe('c\n')
    const cursors = events.flatMap((event) => (event.type === 'stdout' ? [event.cursor] : []))
    expect(cursors.at(-1)).toBe(4)
    const last = events.at(-1)
    expect(last).toMatchObject({ type: 'complete', exitCode: 3, signal: null })
    expect(last?.type === 'complete' && last.result).toBe(await stream.result)
    expect((await stream.result).stdout).toBe('äb\n')
  })

  itHolds('gives lines, and bytes', async ({ sandbox }) => {
    expect(await all(sandbox.execStream("printf 'a\\r\\nb\\nc'; echo x >&2").lines())).toEqual([
      'a',
      'b',
      'c',
    ])
    const readable = sandbox.execStream("printf '\\xff\\x00\\x80'").toReadableStream()
    expect(new Uint8Array(await new Response(readable).arrayBuffer())).toEqual(new Uint8Array([255, 0, 128]))
    const stream = sandbox.execStream('echo x')
    const first = all(stream.lines())
    expect(thrownBy(() => stream.lines())).toMatchObject({ code: 'STREAM_LOCKED' })
    expect(await first).toEqual(['x'])
  })

  itHolds('ends with an error that result rejects with', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo x; sleep 60', { timeout: 1000 })
    const events = await all(stream)
    expect(shapeOf(events)).toBe('start stdout error')
    const last = events.at(-1)
    expect(await rejectionOf(stream.result)).toBe(last?.type === 'error' && last.error)
    expect(last).toMatchObject({ error: { code: 'COMMAND_TIMEOUT', result: { stdout: 'x\n' } } })
    expect(thrownBy(() => sandbox.execStream(''))).toMatchObject({ code: 'INVALID_COMMAND' })
  })

  itHolds('is killed by kill, without an error', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo x; sleep 60')
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    expect(await stream.kill('SIGINT')).toBe(true)
    expect(await stream.result).toMatchObject({ signal: 'SIGINT', cancelled: true, stdout: 'x\n' })
    expect(await stream.kill()).toBe(true)
    const ended = sandbox.execStream('echo x')
    await ended.result
    expect(await ended.kill()).toBe(false)
  })

  itHolds(
    'never runs when it is left or killed while it waits for its turn',
    async ({ sandbox, directory }) => {
      const first = sandbox.exec('until [ -e go ]; do sleep 0.01; done')
      const killed = sandbox.execStream('touch ran')
      const checked = sandbox.execStream('touch ran', { check: true })
      const left = sandbox.execStream('touch ran')
      expect(await killed.kill()).toBe(true)
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
    while (!ended) await take()
    expect(bytes).toBe(46_888_896)
  })
})
