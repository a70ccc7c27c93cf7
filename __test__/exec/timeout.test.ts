import { existsSync } from 'node:fs'
import path from 'node:path'
import type { SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('a timeout', () => {
  it('kills the command and rejects with the output so far', () =>
    withSandbox(async ({ sandbox }) => {
      const run = async (timeout: number) => {
        const rejection = await rejectionOf(sandbox.exec('echo before; sleep 60', { timeout }))
        expect(rejection.message).toContain(`${timeout} ms`)
        return rejection as SandboxError
      }
      const rejection = await inTime(300, run, ({ result }) => result?.stdout === 'before\n')
      expect(rejection).toMatchObject({ name: 'SandboxError', code: 'COMMAND_TIMEOUT' })
      expect(rejection).toMatchObject({ result: { stdout: 'before\n', timedOut: true, cancelled: false } })
    }))

  it('keeps the session, with the state of that moment', () =>
    withSandbox(async ({ sandbox, directory }) => {
      await sandbox.exec('mkdir sub; cd sub; x=1; f() { echo f; }')
      const run = (timeout: number) => rejectionOf(sandbox.exec('x=2; : >../begun; sleep 60', { timeout }))
      await inTime(200, run, () => existsSync(path.join(directory, 'begun')))
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
        sandbox.exec('sleep 1.2'),
        sandbox.exec('echo x', { timeout: 1000 }),
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
