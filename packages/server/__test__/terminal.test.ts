/** The WebSocket of a terminal: bytes both ways, sizes, its end, and messages that are not understood. */
import { describe, expect, it } from 'vitest'
import { unchanged, withServer } from '../../../__test__/helpers/http.js'
import { active, attach, pty } from '../../../__test__/helpers/terminal.js'
import { holds } from '../../../__test__/helpers/until.js'

describe('a terminal over a WebSocket', () => {
  it('carries bytes both ways and closes with the exit code of the process', () =>
    withServer(async ({ url, sandbox }) => {
      await sandbox.startProcess('read -r line; echo "<$line>"; exit 3', { pty, processId: 'one' })
      const terminal = await attach(url, 'one')
      terminal.socket.send(Buffer.from('typed ä\n'))
      await terminal.printed('<typed ä>')
      expect(await terminal.closed).toEqual({
        code: 1000,
        reason: '{"exitCode":3,"signal":null,"reason":"exit"}',
      })
      expect(terminal.text()).toBe('typed ä\n<typed ä>\n')
    }))

  it('closes with the signal that ended the process', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('echo on; sleep 60', { pty })
      const terminal = await attach(url, process.id)
      await terminal.printed('on')
      await process.kill('SIGKILL')
      const { code, reason } = await terminal.closed
      expect([code, JSON.parse(reason)]).toEqual([
        1000,
        { exitCode: null, signal: 'SIGKILL', reason: 'killed' },
      ])
    }))

  it('acknowledges input once the terminal has taken it, where the client asks for that', () =>
    withServer(async ({ url, sandbox }) => {
      const script = 'stty raw -echo; echo on; until [ -e go ]; do sleep 0.01; done; head -c 65539 | wc -c'
      const process = await sandbox.startProcess(script, { pty })
      await process.waitForLog('on')
      const terminal = await attach(url, process.id, { query: '?acknowledge=true&output=false' })
      terminal.socket.send(Buffer.from('abc'))
      await holds(() => terminal.notes.length === 1)
      // The terminal has no room for it.
      terminal.socket.send(Buffer.alloc(65_536, 'x'))
      await unchanged(url, () => JSON.stringify(terminal.notes))
      expect(terminal.notes).toEqual([{ written: 3 }])
      await sandbox.exec('touch go')
      expect((await terminal.closed).code).toBe(1000)
      expect(terminal.notes).toEqual([{ written: 3 }, { written: 65_536 }])
      expect(terminal.text()).toBe('')
      expect((await process.getLogs()).stdout).toContain('65539')
      const late = await attach(url, process.id, { query: '?acknowledge=true' })
      late.socket.send(Buffer.from('x'))
      await late.closed
      for (const { type, error } of late.notes)
        expect([type, error.code, error.context.name]).toEqual(['error', 'INPUT_CLOSED', 'SandboxError'])
    }))

  it('resizes the terminal on a text message', () =>
    withServer(async ({ url, sandbox }) => {
      const script = "trap 'stty size' WINCH; echo on; until [ -e done ]; do sleep 0.01; done"
      const process = await sandbox.startProcess(script, { pty })
      const terminal = await attach(url, process.id)
      await terminal.printed('on')
      terminal.socket.send('{"resize":{"cols":91,"rows":17}}')
      await terminal.printed('17 91')
      await sandbox.exec('touch done')
      expect((await terminal.closed).code).toBe(1000)
    }))

  it('replays earlier output from a cursor on, even after the process has ended', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('echo 0123456789', { pty })
      await process.waitForExit()
      const whole = await attach(url, process.id)
      expect((await whole.closed).code).toBe(1000)
      expect(whole.text()).toBe('0123456789\n')
      const rest = await attach(url, process.id, { query: '?cursor=4' })
      await rest.closed
      expect(rest.text()).toBe('456789\n')
    }))

  it('serves several clients, and keeps the process when they disconnect', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('cat', { pty })
      const [first, second] = [await attach(url, process.id), await attach(url, process.id)]
      first.socket.send(Buffer.from('from the first\n'))
      await second.printed('from the first\nfrom the first\n')
      first.socket.terminate()
      await first.closed
      second.socket.send(Buffer.from('from the second\n'))
      await second.printed('from the second\nfrom the second\n')
      second.socket.close()
      await second.closed
      await holds(async () => (await active(url)) === 1)
      expect(process.status).toBe('running')
    }))

  it('reports how many bytes the log no longer has', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('seq 100000', { pty, logLimit: 1000 })
      await process.waitForExit()
      const terminal = await attach(url, process.id)
      await terminal.closed
      const lost = terminal.notes.reduce((sum, note) => sum + note.missing, 0)
      const bytes = Buffer.byteLength(terminal.text().replaceAll('\n', '\r\n'))
      expect(lost).toBeGreaterThan(100_000)
      expect(lost + bytes).toBe(688_895)
    }))
})

describe('a message that is not understood', () => {
  it('closes the WebSocket on a message that it cannot understand, and keeps the process', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('cat', { pty })
      const cases: Array<[string | Buffer, number, string]> = [
        ['resize', 1008, '{"resize"'],
        ['{"resize":{"cols":80}}', 1008, '{"resize"'],
        ['{"resize":{"cols":0,"rows":24}}', 1008, 'cols'],
        ['{"resize":{"cols":80,"rows":24},"x":1}', 1008, '{"resize"'],
        [Buffer.alloc(1024 * 1024 + 1), 1009, ''],
      ]
      for (const [message, code, text] of cases) {
        const terminal = await attach(url, process.id)
        terminal.socket.send(message)
        const closed = await terminal.closed
        expect(closed.code).toBe(code)
        expect(closed.reason).toContain(text)
      }
      expect(process.status).toBe('running')
    }))
})
