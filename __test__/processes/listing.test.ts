import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Sandbox } from 'nacre'
import { describe, expect } from 'vitest'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { blockUntil } from '../helpers/until.js'

describe('listProcesses', () => {
  itInSandbox(
    'keeps a process that ended before its start has resolved, whatever is cleaned up meanwhile',
    async ({ sandbox, directory }) => {
      const start = sandbox.startProcess('echo out; : >ended; exit 3')
      blockUntil(() => existsSync(path.join(directory, 'ended')))
      expect(await sandbox.cleanupCompletedProcesses()).toBe(0)
      const process = await start
      expect(await process.waitForExit()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
      expect((await process.getLogs()).stdout).toBe('out\n')
      expect(await sandbox.cleanupCompletedProcesses()).toBe(1)
    },
  )
})

describe('autoCleanup', () => {
  // One after the other would take long; all of them concurrently would be too many.
  const many = async (sandbox: Sandbox, count: number, command: string) => {
    for (let round = 0; round < count; round += 20) {
      const starts = Array.from({ length: 20 }, () => sandbox.startProcess(command))
      await Promise.all((await Promise.all(starts)).map((process) => process.waitForExit()))
    }
  }

  itInSandbox('keeps the last thousand that have ended; without it all are kept', async ({ sandbox }) => {
    const kept = await sandbox.startProcess('true', { autoCleanup: false })
    const first = await sandbox.startProcess('true')
    await Promise.all([kept.waitForExit(), first.waitForExit()])
    await many(sandbox, 980, ':')
    expect(await sandbox.listProcesses()).toContain(first)
    await many(sandbox, 40, ':')
    const known = await sandbox.listProcesses()
    expect(known.length).toBeLessThanOrEqual(1001)
    expect(known).toContain(kept)
    expect(known).not.toContain(first)
    expect([first.status, await sandbox.getProcess(first.id)]).toEqual(['completed', null])
  })

  itInSandbox('keeps fewer when their logs are large', async ({ sandbox }) => {
    const first = await sandbox.startProcess('head -c 700000 /dev/zero')
    await first.waitForExit()
    await many(sandbox, 100, 'head -c 700000 /dev/zero')
    expect(await sandbox.listProcesses()).toHaveLength(100)
    expect(await sandbox.getProcess(first.id)).toBe(null)
  })
})
