/** A container's session manager on the drop-in: its lock, its instanceof, its new session after an exit. */
import { describe, expect, it } from 'vitest'
import { SessionManager, textIn } from '../helpers/container.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { made } from '../helpers/stream.js'

function withManager(test: (manager: SessionManager, workplace: Workplace) => Promise<void>): Promise<void> {
  return withSandbox(async (workplace) => {
    const { directory, tag } = workplace
    const manager = new SessionManager({ cwd: directory, env: { NACRE_TEST_TAG: tag }, isolation: true })
    try {
      await test(manager, workplace)
    } finally {
      await Promise.all(['a', 'b'].map((id) => manager.delete(id)))
    }
  })
}

describe('a session manager', () => {
  it('has sessions that share nothing and keep their state', () =>
    withManager(async (manager) => {
      await Promise.all([manager.execute('a', 'x=1; cd /usr'), manager.execute('b', 'x=2; cd /')])
      const replies = await Promise.all(['a', 'b'].map((id) => manager.execute(id, 'echo $x $PWD')))
      expect(replies).toEqual([
        { success: true, stdout: '1 /usr', stderr: '', exitCode: 0 },
        { success: true, stdout: '2 /', stderr: '', exitCode: 0 },
      ])
    }))

  it('makes a new session after an exit, and the other one does not notice', () =>
    withManager(async (manager) => {
      await Promise.all([manager.execute('a', 'x=1'), manager.execute('b', 'x=2')])
      expect(await manager.execute('a', 'exit 7')).toEqual({
        success: false,
        code: 'SESSION_TERMINATED',
        sessionId: 'a',
        exitCode: 7,
      })
      expect(await manager.execute('a', 'echo "[$x]"')).toMatchObject({ stdout: '[]' })
      expect(await manager.execute('b', 'echo "[$x]"')).toMatchObject({ stdout: '[2]' })
    }))

  it('answers while streams run in the background, and kills them by id', () =>
    withManager(async (manager, { directory }) => {
      await manager.execute('a', 'greet() { echo "hello $1"; }')
      const server = await manager.stream('a', 'greet server; touch up; sleep 600', 'server')
      const build = await manager.stream('a', 'greet build; exit 2', 'build')
      await made(directory, 'up')
      expect(await manager.execute('a', 'greet you')).toMatchObject({ stdout: 'hello you' })
      await build.ended
      expect(textIn(build.events)).toBe('hello build\n')
      expect(build.events.at(-1)).toMatchObject({ type: 'complete', exitCode: 2 })
      expect(await manager.kill('a', 'server')).toBe(true)
      await server.ended
      expect(server.events[0]).toMatchObject({ type: 'start', pid: expect.any(Number) })
      expect(textIn(server.events)).toBe('hello server\n')
      expect(server.events.at(-1)).toMatchObject({ type: 'complete', exitCode: 143 })
      expect(await manager.kill('a', 'server')).toBe(false)
    }))

  it('goes on after a timeout, with the same session', () =>
    withManager(async (manager) => {
      await manager.execute('a', 'x=kept')
      expect(await manager.execute('a', 'sleep 600', { timeoutMs: 100 })).toMatchObject({
        code: 'COMMAND_ERROR',
        message: expect.stringContaining('Command timeout after 100ms'),
      })
      expect(await manager.execute('a', 'echo $x')).toMatchObject({ stdout: 'kept' })
    }))

  it('receives the errors of a command and a stream when their session is deleted', () =>
    withManager(async (manager, { directory }) => {
      const stream = await manager.stream('a', 'sleep 600', 's')
      const running = manager.execute('a', 'touch begun; sleep 600')
      await made(directory, 'begun')
      await manager.delete('a')
      expect(await running).toEqual({ success: false, code: 'SESSION_DESTROYED', sessionId: 'a' })
      await stream.ended
      expect(stream.events.at(-1)).toMatchObject({ type: 'error' })
      expect(await manager.execute('a', 'echo new')).toMatchObject({ stdout: 'new' })
    }))
})
