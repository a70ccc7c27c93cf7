import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { blockUntil } from '../helpers/until.js'

describe('listProcesses', () => {
  it('gives all that are known, in the order of their starts, or those that a filter fits', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession({ id: 'other' })
      const done = await sandbox.startProcess('true')
      const failed = await sandbox.startProcess('false')
      const running = await session.startProcess('sleep 60')
      await Promise.all([done.wait(), failed.wait()])
      const ids = async (filter?: object) => (await sandbox.listProcesses(filter)).map(({ id }) => id)
      expect(await ids()).toEqual([done.id, failed.id, running.id])
      expect(await ids({ state: 'running' })).toEqual([running.id])
      expect(await ids({ state: 'exited' })).toEqual([done.id, failed.id])
      expect(await ids({ state: ['running', 'exited'] })).toEqual([done.id, failed.id, running.id])
      expect(await ids({ sessionId: 'other' })).toEqual([running.id])
      expect(await ids({ sessionId: 'other', state: 'exited' })).toEqual([])
      expect(await ids({ state: [] })).toEqual([])
    }))

  it('gives one object for one process, whichever call asks', () =>
    withSandbox(async ({ sandbox }) => {
      const process = await sandbox.startProcess('sleep 60', { processId: 'mine' })
      expect(await sandbox.getProcess('mine')).toBe(process)
      expect((await sandbox.listProcesses())[0]).toBe(process)
    }))

  it('keeps a process that ended before its start has resolved, whatever is cleaned up meanwhile', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const start = sandbox.startProcess('echo out; : >ended; exit 3')
      blockUntil(() => existsSync(path.join(directory, 'ended')))
      expect(await sandbox.forgetEndedProcesses()).toBe(0)
      const process = await start
      expect(await process.wait()).toEqual({ exitCode: 3, signal: null, reason: 'exit' })
      expect((await process.getLogs()).stdout).toBe('out\n')
      expect(await sandbox.forgetEndedProcesses()).toBe(1)
    }))

  it('loses a process with its session', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession()
      const process = await session.startProcess('sleep 60')
      await sandbox.deleteSession(session.id)
      expect(await process.wait()).toMatchObject({ reason: 'killed' })
      expect(process.state).toBe('killed')
    }))
})

describe('autoCleanup', () => {
  // One after the other would take long; all of them concurrently would be too many.
  const many = async (sandbox: Sandbox, count: number, command: string) => {
    for (let round = 0; round < count; round += 20) {
      const starts = Array.from({ length: 20 }, () => sandbox.startProcess(command))
      await Promise.all((await Promise.all(starts)).map((process) => process.wait()))
    }
  }

  it('keeps the last thousand that have ended; without it all are kept', () =>
    withSandbox(async ({ sandbox }) => {
      const kept = await sandbox.startProcess('true', { autoCleanup: false })
      const first = await sandbox.startProcess('true')
      await Promise.all([kept.wait(), first.wait()])
      await many(sandbox, 980, ':')
      expect(await sandbox.listProcesses()).toContain(first)
      await many(sandbox, 40, ':')
      const known = await sandbox.listProcesses()
      expect(known.length).toBeLessThanOrEqual(1001)
      expect(known).toContain(kept)
      expect(known).not.toContain(first)
      expect([first.state, await sandbox.getProcess(first.id)]).toEqual(['exited', null])
    }))

  it('keeps fewer when their logs are large', () =>
    withSandbox(async ({ sandbox }) => {
      const first = await sandbox.startProcess('head -c 700000 /dev/zero')
      await first.wait()
      await many(sandbox, 100, 'head -c 700000 /dev/zero')
      expect(await sandbox.listProcesses()).toHaveLength(100)
      expect(await sandbox.getProcess(first.id)).toBe(null)
    }))
})
