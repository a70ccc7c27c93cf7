/** The fixture notices what it is there to notice: a check that cannot fail proves nothing. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { rejectionOf } from './helpers/thrown.js'

describe('withSandbox', () => {
  it('notices a process that is left, by its tag', async () => {
    const children: ChildProcess[] = []
    const run = withSandbox(
      async ({ tag }) => {
        children.push(spawn('sleep', ['60'], { env: { PATH: process.env.PATH, TAG: tag }, stdio: 'ignore' }))
      },
      { patience: 100 },
    )
    const rejection = await rejectionOf(run)
    for (const child of children) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    expect(rejection.message).toMatch(/left behind:\nprocess \d+ S sleep 60/)
  })

  it('notices a file descriptor that is left', async () => {
    const files: number[] = []
    const run = withSandbox(
      async () => {
        files.push(openSync('/dev/null', 'r'))
      },
      { patience: 100 },
    )
    const rejection = await rejectionOf(run)
    for (const file of files) closeSync(file)
    expect(rejection.message).toMatch(/1 more of kind file descriptor: \d+ -> \/dev\/null/)
  })

  it('notices a file that is left in the state directory', async () => {
    const run = withSandbox(
      async ({ sandbox, stateDir }) => {
        await sandbox.destroy()
        mkdirSync(path.join(stateDir, 'left'), { recursive: true })
      },
      { destroys: true },
    )
    expect((await rejectionOf(run)).message).toContain('left')
  })

  it('notices a sandbox that does not work any more', async () => {
    const run = withSandbox(({ sandbox }) => sandbox.destroy())
    expect(await rejectionOf(run)).toMatchObject({ code: 'SANDBOX_DESTROYED' })
  })
})
