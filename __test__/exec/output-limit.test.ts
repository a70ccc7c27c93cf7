/** `outputLimit` ends a command that prints too much; errors show the line of the call. */
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

interface Failure {
  code: string
  stack: string
  result: { stdout: string; stderr: string; success: boolean }
}

describe('outputLimit', () => {
  it('ends a command that prints without end, and keeps the output up to the limit', () =>
    withSandbox(async ({ sandbox }) => {
      const { code, result } = (await rejectionOf(
        sandbox.exec('x=1; yes', { outputLimit: 1000 }),
      )) as unknown as Failure
      expect(code).toBe('OUTPUT_LIMIT')
      expect(result).toMatchObject({ stdout: 'y\n'.repeat(500), stderr: '', success: false })
      expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
    }))

  it('counts both streams together, also of a command that ends by itself', () =>
    withSandbox(async ({ sandbox }) => {
      const both = 'printf 12345; printf 67890 >&2'
      expect(await sandbox.exec(both, { outputLimit: 10 })).toMatchObject({
        stdout: '12345',
        stderr: '67890',
      })
      const { code, result } = (await rejectionOf(
        sandbox.exec(both, { outputLimit: 9 }),
      )) as unknown as Failure
      expect(code).toBe('OUTPUT_LIMIT')
      expect(result.stdout.length + result.stderr.length).toBe(9)
    }))

  it('ends a stream after its last event', () =>
    withSandbox(async ({ sandbox }) => {
      let text = ''
      let last: { type: string; error?: unknown } = { type: '' }
      for await (const event of sandbox.execStream('yes', { outputLimit: 100_000 })) {
        if (event.type === 'stdout') text += event.data
        last = event
      }
      expect(text.length).toBe(100_000)
      expect(last).toMatchObject({ type: 'error', error: { code: 'OUTPUT_LIMIT' } })
    }))
})

describe('the stack of an error has the line of the call', () => {
  async function callOfUser(run: () => Promise<unknown>): Promise<string> {
    const { stack } = (await rejectionOf(run())) as unknown as Failure
    return stack
  }

  it('for commands, processes and files', () =>
    withSandbox(async ({ sandbox }) => {
      const calls = [
        () => sandbox.exec('exit 1', { check: true }),
        () => sandbox.exec('sleep 60', { timeout: 20 }),
        () => sandbox.execStream('exit 1', { check: true }).result,
        () => sandbox.startProcess('true', { cwd: '/missing' }),
        () => sandbox.files.read('missing'),
      ]
      for (const call of calls) expect(await callOfUser(call)).toContain('output-limit.test.ts')
      const process = await sandbox.startProcess('exit 1')
      expect(await callOfUser(() => process.waitForLog('never'))).toContain('output-limit.test.ts')
    }))
})
