import type { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { tagged } from './helpers/proc.js'

describe('right after a deletion of the default session that is not awaited', () => {
  const afterwards: Record<string, (sandbox: Sandbox) => Promise<unknown>> = {
    exec: async (sandbox) => (await sandbox.exec('echo ${x-unset}')).stdout,
    execStream: async (sandbox) => (await sandbox.execStream('echo ${x-unset}').result).stdout,
    startProcess: async (sandbox) => {
      const process = await sandbox.startProcess('echo ${x-unset}')
      await process.wait()
      return (await process.getLogs()).stdout
    },
    setEnvVars: async (sandbox) => {
      await sandbox.setEnvVars({ Y: '1' })
      return (await sandbox.exec('echo ${x-unset}')).stdout
    },
  }
  it('every call runs in a new one', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.deleteSession('default')
      for (const [name, call] of Object.entries(afterwards)) {
        await sandbox.exec("x=1; trap '' TERM; sleep 61 &")
        const deleted = sandbox.deleteSession('default')
        expect([name, await call(sandbox)]).toEqual([name, 'unset\n'])
        await deleted
      }
    }))

  it('the new one can be deleted as well, and destroy waits for both', () =>
    withSandbox(
      async ({ sandbox, tag }) => {
        const deletions: Promise<void>[] = []
        for (let round = 0; round < 3; round++) {
          await sandbox.exec("trap '' TERM; sleep 61 &")
          deletions.push(sandbox.deleteSession('default'))
        }
        await sandbox.exec('true')
        await sandbox.destroy()
        expect(tagged(tag)).toEqual([])
        await Promise.all(deletions)
      },
      { destroys: true },
    ))
})
