import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('waitForLog', () => {
  it('finds existing and new lines', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(
        'echo a first line; sleep 0.1; echo server is ready now >&2; sleep 60',
      )
      expect(await process.waitForLog('first')).toEqual({ line: 'a first line' })
      expect(await process.waitForLog('ready')).toEqual({ line: 'server is ready now' })
      expect(await process.waitForLog('first')).toEqual({ line: 'a first line' })
      expect(process.state).toBe('running')
    }))

  it('returns the match of a regular expression', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo listening on port 8080; sleep 60')
      const { line, match } = await process.waitForLog(/port (?<port>\d+)$/g)
      expect([line, match?.[1], match?.groups?.port]).toEqual(['listening on port 8080', '8080', '8080'])
    }))

  it('finds a pattern that is split over pieces, whole', () =>
    withSandbox(async ({ sandbox }) => {
      // A piece that is quiet for 50 ms counts as a line. On a busy machine some are, but not all.
      const pieces = "printf 'on po'; sleep 0.02; printf 'rt 8'; sleep 0.02; printf '080\\n'"
      const process = await sandbox.startProcess(`while :; do ${pieces}; done`)
      const [number, word] = await Promise.all([
        process.waitForLog(/port (\d{4})/),
        process.waitForLog('port 8080'),
      ])
      expect([number.match?.[1], number.line, word.line]).toEqual(['8080', 'on port 8080', 'on port 8080'])
    }))

  it('finds a prompt without an end of line, once it is quiet', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess("echo welcome; printf 'login: '; sleep 60")
      expect(await process.waitForLog(/^login: $/)).toMatchObject({ line: 'login: ' })
    }))

  it('does not put the lines of the two streams together', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess(
        'printf re; printf x >&2; printf ady; sleep 0.01; echo; exit',
      )
      expect(await process.waitForLog('ready')).toEqual({ line: 'ready' })
    }))

  it('takes CRLF for an end of line, and finds a last line without one', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess("printf 'one\\r\\ntwo'")
      expect(await process.waitForLog(/^one$/)).toMatchObject({ line: 'one' })
      expect(await process.waitForLog(/^two$/)).toMatchObject({ line: 'two' })
    }))

  it('begins at `since`', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('cat', { input: 'pipe' })
      await process.write('same 1\n')
      expect((await process.waitForLog('same')).line).toBe('same 1')
      const second = process.waitForLog('same', { cursor: 7 })
      await process.write('same 2\n')
      expect((await second).line).toBe('same 2')
    }))

  it('rejects when the process ends without it, with the end of the log', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo trying; echo no such config >&2; sleep 0.05; exit 3')
      const error = await rejectionOf(process.waitForLog('ready', { timeout: 5000 }))
      expect(error).toMatchObject({ name: 'SandboxError', code: 'PROCESS_EXITED_BEFORE_READY' })
      expect((error as { logTail?: string }).logTail?.split('\n').sort()).toEqual([
        '',
        'no such config',
        'trying',
      ])
      expect(error.message).toContain('ended with exit code 3 before a line of its log had "ready"')
      expect(error.message).toContain('no such config')
      expect(Object.keys(error)).not.toContain('logTail')
      const again = await rejectionOf(process.waitForLog('ready'))
      expect(again).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY' })
    }))

  it('rejects when its time is up, and the process runs on', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('echo hello; sleep 60')
      await process.waitForLog('hello')
      const error = await rejectionOf(process.waitForLog(/ready/, { timeout: 30 }))
      expect(error).toMatchObject({ code: 'PROCESS_READY_TIMEOUT', logTail: 'hello\n' })
      expect(error.message).toContain('30 ms passed before a line of its log had /ready/')
      expect(process.state).toBe('running')
    }))

  it('is given up by an abort', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60')
      const controller = new AbortController()
      const waiting = rejectionOf(process.waitForLog('x', { signal: controller.signal }))
      controller.abort('enough')
      expect(await waiting).toMatchObject({ code: 'ABORT_ERR', cause: 'enough' })
    }))

  it('shows the last lines of a long log only', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('seq 1 100000')
      const error = await rejectionOf(process.waitForLog('ready'))
      const { logTail = '' } = error as { logTail?: string }
      expect(logTail.length).toBeLessThan(5000)
      expect(logTail).toMatch(/^\d{5,6}\n/)
      expect(logTail.endsWith('99999\n100000\n')).toBe(true)
    }))

  it('finds a line behind megabytes of one without an end', () =>
    withSandbox(async ({ sandbox }) => {
      const command =
        "head -c 20000000 /dev/zero | tr '\\0' x; printf needle; head -c 3000000 /dev/zero | tr '\\0' x"
      const process = await sandbox.startProcess(command)
      const { line } = await process.waitForLog(/need(le)/)
      expect(line).toContain('needle')
      expect(line.length).toBeLessThan(2_000_000)
    }))
})
