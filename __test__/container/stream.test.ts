/** execStream: a command in the background of a session, its output and its end. */
import { readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { ExecEvent } from 'nacre/container'
import { describe, expect, it } from 'vitest'
import { textIn } from '../helpers/container.js'
import { itInSession } from '../helpers/drop-in.js'
import { expectGone, startHost } from '../helpers/host.js'
import { withSmallDisk } from '../helpers/namespaces.js'
import { all, made } from '../helpers/stream.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const MB = 1024 * 1024

function last(events: ExecEvent[]): ExecEvent | undefined {
  return events.at(-1)
}

describe('execStream', () => {
  itInSession('gives start, output and end as containers know them', async ({ session }) => {
    const command = 'echo out; echo err >&2; exit 3'
    const events = await all(session.execStream(command))
    expect(events[0]).toEqual({
      type: 'start',
      command,
      pid: expect.any(Number),
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    expect([textIn(events), textIn(events, 'stderr')]).toEqual(['out\n', 'err\n'])
    expect(last(events)).toEqual({
      type: 'complete',
      timestamp: expect.any(String),
      exitCode: 3,
      result: {
        stdout: '',
        stderr: '',
        exitCode: 3,
        success: false,
        command,
        duration: expect.any(Number),
        timestamp: expect.any(String),
      },
    })
    for (const { timestamp } of events) expect(new Date(timestamp).toISOString()).toBe(timestamp)
    const end = last(await all(session.execStream('true')))
    expect(end?.type === 'complete' && end.result.success && end.result.duration > 0).toBe(true)
  })

  itInSession('throws for a command that is not valid, and keeps its commandId free', async ({ session }) => {
    for (const command of [undefined as never, '', 'a\0b']) {
      const stream = session.execStream(command, { commandId: 'one' })
      expect(await rejectionOf(stream.next())).toMatchObject({
        name: 'OptionError',
        code: 'INVALID_COMMAND',
      })
    }
    expect(last(await all(session.execStream('true', { commandId: 'one' })))).toMatchObject({ exitCode: 0 })
  })

  itInSession('sees the state of the session and does not write back', async ({ session, directory }) => {
    await session.exec('mkdir sub; cd sub; export KEY=1; word=two; f() { echo "$KEY $word $(pwd)"; }')
    const events = await all(session.execStream('f; KEY=changed; word=changed; cd /; unset -f f'))
    expect(textIn(events)).toBe(`1 two ${directory}/sub\n`)
    expect((await session.exec('f')).stdout).toBe(`1 two ${directory}/sub`)
  })

  itInSession('holds exec not up, and exec does not hold it up', async ({ session, directory }) => {
    const waiting = session.execStream('until [ -e go ]; do sleep 0.01; done; echo went')
    await waiting.next()
    expect((await session.exec('echo meanwhile')).stdout).toBe('meanwhile')
    const foreground = session.exec('touch running; until [ -e go ]; do sleep 0.01; done')
    await made(directory, 'running')
    expect(textIn(await all(session.execStream('echo beside')))).toBe('beside\n')
    await all(session.execStream('touch go'))
    await foreground
    expect(textIn(await all(waiting))).toBe('went\n')
  })

  itInSession('is a failed command when its directory is not there', async ({ session, directory }) => {
    const missing = path.join(directory, 'no')
    const events = await all(session.execStream('touch ran', { cwd: missing, commandId: 'a' }))
    expect(events.map(({ type }) => type)).toEqual(['start', 'stderr', 'complete'])
    expect(textIn(events, 'stderr')).toContain(`Failed to change directory to '${missing}'`)
    expect(last(events)).toMatchObject({ exitCode: 1 })
    expect(session.getRunningCommandIds()).toEqual([])
    expect((await session.exec('ls')).stdout).toBe('')
  })

  itInSession(
    'has no time limit of the session: what runs in the background is often a server',
    async ({ session }) => {
      expect(last(await all(session.execStream('sleep 0.3')))).toMatchObject({ exitCode: 0 })
      const late = last(await all(session.execStream('sleep 600', { timeoutMs: 150 })))
      expect(late).toMatchObject({ type: 'error', error: 'Command timeout after 150ms' })
    },
    { commandTimeoutMs: 100 },
  )

  itInSession(
    'ends also when the shell of the session has ended meanwhile',
    async ({ session, directory }) => {
      const stream = session.execStream('until [ -e go ]; do sleep 0.01; done; echo lived; exit 4')
      await stream.next()
      await rejectionOf(session.exec('exit 1'))
      expect(session.isReady()).toBe(false)
      writeFileSync(path.join(directory, 'go'), '')
      const events = await all(stream)
      expect(textIn(events)).toBe('lived\n')
      expect(last(events)).toMatchObject({ type: 'complete', exitCode: 4 })
    },
  )
})

describe('the output of a stream', () => {
  itInSession('is never lost: 200 short commands', async ({ session }) => {
    for (let round = 0; round < 10; round++) {
      const numbers = Array.from({ length: 20 }, (_, index) => round * 20 + index)
      const streams = numbers.map((n) => all(session.execStream(`echo ${n}; echo e${n} >&2`)))
      for (const [index, events] of (await Promise.all(streams)).entries()) {
        expect([textIn(events), textIn(events, 'stderr'), last(events)?.type]).toEqual([
          `${numbers[index]}\n`,
          `e${numbers[index]}\n`,
          'complete',
        ])
      }
    }
    expect(session.getRunningCommandIds()).toEqual([])
  })

  itInSession(
    'waits for a slow reader on disk, and the command does not wait',
    async ({ session, directory }) => {
      await all(session.execStream('true'))
      const stream = session.execStream(`seq ${4 * MB}; touch done`)
      await stream.next()
      await made(directory, 'done')
      const sizes = readdirSync('/proc/self/fd').map((fd) =>
        statSync(`/proc/self/fd/${fd}`, { throwIfNoEntry: false }),
      )
      expect(Math.max(...sizes.map((stat) => (stat?.isFile() ? stat.size : 0)))).toBeGreaterThan(20 * MB)
      let [length, rest, expected] = [0, '', 1]
      for await (const event of stream) {
        if (event.type !== 'stdout') continue
        length += event.data.length
        const lines = (rest + event.data).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines)
          if (line !== String(expected++)) throw new Error(`${line} at ${expected - 1}`)
      }
      expect(expected).toBe(4 * MB + 1)
      expect(length).toBeGreaterThan(30 * MB)
    },
  )
})

describe('what a command leaves behind', () => {
  itInSession('lives on and can print until the session ends', async ({ session, directory }) => {
    const command =
      '(until [ -e go ]; do sleep 0.01; done; seq 100000 && echo whole >part && mv part after) & echo begun'
    const events = await all(session.execStream(command))
    expect(textIn(events)).toBe('begun\n')
    await session.exec('touch go')
    await made(directory, 'after')
    expect((await session.exec('cat after')).stdout).toBe('whole')
  })
})

describe('a stream whose reader is too far behind', () => {
  it('ends in an error and not in a gap, and its command is killed', async () => {
    const directory = temporary('nacre-behind-')
    const program = `
      const { existsSync } = require('fs')
      const { Session } = require('nacre/container')
      ;(async () => {
        const session = new Session({ id: 's', cwd: '${directory}' })
        await session.initialize()
        const stream = session.execStream('head -c 20000000 /dev/zero; touch full; sleep 600', { commandId: 'a' })
        await stream.next()
        while (!existsSync('${directory}/full')) await new Promise((resolve) => setTimeout(resolve, 5))
        const events = []
        for await (const event of stream) events.push(event)
        const length = events.reduce((sum, { type, data }) => sum + (type === 'stdout' ? data.length : 0), 0)
        const { type, error } = events.at(-1)
        const lost = Number(/^(\\d+) bytes of output were lost/.exec(error)?.[1])
        print([type, lost > 10000000 && lost + length <= 20000000, session.getRunningCommandIds().length].join())
        await session.destroy()
      })()`
    const host = startHost(program, withSmallDisk(directory), { TMPDIR: directory })
    expect([await host.ended(), host.output()]).toEqual([0, 'error,true,0\n'])
    await expectGone(host.tag)
  })
})

describe('leaving a stream', () => {
  itInSession('does not wait behind a silent command', async ({ session }) => {
    const stream = session.execStream('sleep 600')
    await stream.next()
    const waiting = stream.next()
    expect(await stream.return(undefined)).toEqual({ done: true, value: undefined })
    expect(await waiting).toMatchObject({ done: false })
    expect(await stream.next()).toEqual({ done: true, value: undefined })
  })

  itInSession('before the beginning starts nothing', async ({ session }) => {
    const stream = session.execStream('touch ran')
    await stream.return(undefined)
    expect(await all(stream)).toEqual([])
    expect((await session.exec('ls')).stdout).toBe('')
  })

  itInSession('with an exception gets that back', async ({ session }) => {
    const stream = session.execStream('sleep 600')
    await stream.next()
    expect(await rejectionOf(stream.throw(new Error('mine')))).toMatchObject({ message: 'mine' })
    expect(session.getRunningCommandIds()).toEqual([])
  })
})
