import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants'
import { rejectionOf } from '../helpers/thrown'

describe('a timeout', () => {
  it('kills the command and rejects with the output so far', () =>
    withSandbox(async ({ sandbox }) => {
      const started = performance.now()
      const rejection = await rejectionOf(sandbox.exec('echo before; sleep 60', { timeout: 300 }))
      expect(performance.now() - started).toBeLessThan(2000)
      expect(rejection).toMatchObject({ name: 'SandboxError', code: 'COMMAND_TIMEOUT' })
      expect(rejection).toMatchObject({ result: { stdout: 'before\n', timedOut: true, isCanceled: false } })
      expect(rejection.message).toContain('300 ms')
    }))

  it('keeps the session, with the state of that moment', () =>
    withSandbox(async ({ sandbox, directory }) => {
      await sandbox.exec('mkdir sub; cd sub; x=1; f() { echo f; }')
      await rejectionOf(sandbox.exec('x=2; sleep 60', { timeout: 200 }))
      expect((await sandbox.exec('echo $x; f; pwd')).stdout).toBe(`2\nf\n${directory}/sub\n`)
    }))

  for (const command of [
    'while :; do :; done',
    "trap '' INT TERM; sleep 60",
    'bash -c \'trap "" TERM; sleep 60\'',
  ]) {
    it(`ends \`${command}\``, () =>
      withSandbox(async ({ sandbox }) => {
        const options = { timeout: 200, forceKillAfterDelay: 200 }
        const rejection = await rejectionOf(sandbox.exec(command, options))
        expect(rejection).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      }))
  }

  it('counts from the start of the command, not from the call', () =>
    withSandbox(async ({ sandbox }) => {
      const [, second] = await Promise.all([
        sandbox.exec('sleep 0.5'),
        sandbox.exec('echo x', { timeout: 300 }),
      ])
      expect(second.stdout).toBe('x\n')
    }))

  it('is taken from the sandbox when the command has none, and 0 lifts it', () =>
    withSandbox(
      async ({ sandbox }) => {
        expect(await rejectionOf(sandbox.exec('sleep 60'))).toMatchObject({ code: 'COMMAND_TIMEOUT' })
        expect((await sandbox.exec('sleep 0.5; echo x', { timeout: 0 })).stdout).toBe('x\n')
      },
      { options: { timeout: 300 } },
    ))
})
