/** Commands as clients of a sandbox container run them. */
import { describe, expect, it } from 'vitest'
import { dataOf, textOf, withServer } from '../../../__test__/helpers/http.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { holds } from '../../../__test__/helpers/until.js'

const isoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

describe('POST /api/execute', () => {
  it('runs a command in the session and gives all of its result', () =>
    withServer(async ({ post, directory }) => {
      expect(await post('/api/execute', { command: 'cd /tmp; echo out; echo err >&2; (exit 3)' })).toEqual({
        status: 200,
        body: {
          success: false,
          exitCode: 3,
          stdout: 'out\n',
          stderr: 'err\n',
          command: 'cd /tmp; echo out; echo err >&2; (exit 3)',
          duration: expect.any(Number),
          timestamp: isoTime,
          sessionId: 'default',
        },
      })
      const here = { command: 'pwd; echo $X', cwd: directory, env: { X: '5', Y: null }, origin: 'internal' }
      expect((await post('/api/execute', here)).body.stdout).toBe(`${directory}\n5\n`)
      expect((await post('/api/execute', { command: 'pwd' })).body.stdout).toBe('/tmp\n')
      expect((await post('/api/execute', { command: 'exit 4' })).body.exitCode).toBe(4)
      expect((await post('/api/execute', { command: 'kill -9 $$' })).body.exitCode).toBe(137)
      const lost = await post('/api/execute', { command: 'true', cwd: '/proc/does/not/exist' })
      expect(lost.body).toMatchObject({
        exitCode: 1,
        stderr: expect.stringContaining("'/proc/does/not/exist'"),
      })
    }))

  it('starts a process when it is to run in the background', () =>
    withServer(async ({ post, get }) => {
      const { body } = await post('/api/execute', { command: 'sleep 60', background: true })
      expect(body).toEqual({
        success: true,
        processId: expect.stringMatching(/^proc-/),
        pid: expect.any(Number),
        command: 'sleep 60',
        timestamp: isoTime,
      })
      const { process } = (await get(`/api/process/${body.processId}`)).body
      expect(process.status).toBe('running')
    }))

  it('refuses options that it does not support, by name', () =>
    withServer(async ({ post }) => {
      expect(await post('/api/execute', { command: ' ' })).toMatchObject({
        status: 400,
        body: { code: 'INVALID_COMMAND' },
      })
      for (const body of [
        {},
        { command: 5 },
        { command: 'true', timeoutMs: -1 },
        { command: 'true', cwd: '' },
      ])
        expect(await post('/api/execute', body)).toMatchObject({
          status: 400,
          body: { code: 'VALIDATION_FAILED' },
        })
      const nowhere = await post('/api/execute', { command: 'true', sessionId: 'nowhere' })
      expect(nowhere).toMatchObject({
        status: 404,
        body: { code: 'SESSION_NOT_FOUND', context: { sessionId: 'nowhere' } },
      })
    }))

  it('says with SESSION_TERMINATED that a session ended, when its sessions do not survive exit', () =>
    withServer(async ({ post, sandbox }) => {
      await sandbox.createSession({ id: 'brief', surviveExit: false })
      const ended = await post('/api/execute', { command: 'exit 3', sessionId: 'brief' })
      expect(ended).toMatchObject({
        status: 410,
        body: { code: 'SESSION_TERMINATED', context: { sessionId: 'brief', exitCode: 3 } },
      })
    }))
})

describe('POST /api/execute/stream', () => {
  it('gives start, output and complete', () =>
    withServer(async ({ stream }) => {
      const events = await dataOf(
        stream('POST', '/api/execute/stream', { command: 'echo a; echo b >&2; exit 3' }),
      )
      for (const { timestamp } of events) expect(timestamp).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
      expect(events[0]).toEqual({
        type: 'start',
        command: 'echo a; echo b >&2; exit 3',
        pid: expect.any(Number),
        sessionId: 'default',
        timestamp: isoTime,
      })
      expect([textOf(events), textOf(events, 'stderr')]).toEqual(['a\n', 'b\n'])
      expect(events.at(-1)).toMatchObject({
        type: 'complete',
        exitCode: 3,
        timestamp: isoTime,
        result: { stdout: '', stderr: '', exitCode: 3, success: false },
      })
    }))

  it('ends with a complete that has an exit code, or with an error', () =>
    withServer(async ({ stream }) => {
      const last = async (body: object) => (await dataOf(stream('POST', '/api/execute/stream', body))).at(-1)
      expect(await last({ command: 'kill -9 $$' })).toMatchObject({ type: 'complete', exitCode: 137 })
      expect(await last({ command: 'sleep 60', timeoutMs: 100 })).toMatchObject({
        type: 'error',
        code: 'COMMAND_TIMEOUT',
      })
      expect(await last({ command: 'true', cwd: '/proc/does/not/exist' })).toMatchObject({
        type: 'complete',
        exitCode: 1,
      })
      expect(await last({ command: 'echo x; exit 2', background: true })).toMatchObject({
        type: 'complete',
        exitCode: 2,
      })
    }))

  it('loses nothing of many short streams', () =>
    withServer(async ({ stream }) => {
      const one = async (index: number) =>
        textOf(await dataOf(stream('POST', '/api/execute/stream', { command: `echo ${index}` })))
      const texts = await Promise.all(Array.from({ length: 100 }, (_, index) => one(index)))
      expect(texts).toEqual(texts.map((_, index) => `${index}\n`))
    }))

  it('kills the command when the client disconnects', () =>
    withServer(async ({ stream, post, tag }) => {
      const reply = stream('POST', '/api/execute/stream', { command: 'echo begun; sleep 61; true' })
      await expect(
        (async () => {
          for await (const { data } of reply) if (data.type === 'stdout') reply.vanish()
        })(),
      ).rejects.toThrow()
      const sleeps = () =>
        proc.tagged(tag).filter(({ pid }) => proc.show({ pid } as never).includes('sleep 61'))
      await holds(() => sleeps().length === 0)
      expect((await post('/api/execute', { command: 'echo free' })).body.stdout).toBe('free\n')
    }))
})
