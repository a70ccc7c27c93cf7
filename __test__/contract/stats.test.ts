/** What a session and a sandbox use, here and over HTTP. */
import { describe, expect } from 'vitest'
import { printed } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { itHolds } from './helper.js'

const NOTHING = {
  cpuTime: 0,
  memory: 0,
  memoryPeak: 0,
  pids: 0,
  ioRead: 0,
  ioWrite: 0,
  openFiles: 0,
  terminals: 0,
}

describe('stats', () => {
  itHolds('counts what runs in a session', async ({ sandbox }) => {
    expect(await sandbox.stats()).toEqual({ ...NOTHING, sessions: 0 })
    expect(await (await sandbox.getSession('default'))?.stats()).toEqual(NOTHING)
    const session = await sandbox.createSession({ id: 'one' })
    await session.exec('true')
    const idle = await session.stats()
    expect(idle.terminals).toBe(0)
    const processes = [
      await session.startProcess('exec sleep 600', { pty: true }),
      await session.startProcess('exec sleep 600', { pty: true }),
      await session.startProcess('exec 50</dev/null 51</dev/null 52</dev/null; echo on; sleep 600'),
    ]
    await processes[2]?.waitForLog('on')
    await session.exec('sleep 600 &')
    const busy = await until(
      async () => {
        const stats = await session.stats()
        // Not more than before: a shell that stands by may have been starting then, with descriptors that it closes.
        return stats.terminals === 2 && stats.openFiles >= 15 && stats.pids >= 5 ? stats : undefined
      },
      () => 'the processes are not counted',
    )
    expect(busy.memory).toBeGreaterThan(1_000_000)
    expect(busy.memoryPeak).toBeGreaterThanOrEqual(busy.memory)

    const loop = 'i=0; while ((i < 100000)); do ((i++)); done'
    await session.exec(loop)
    const after = await session.stats()
    expect(after.cpuTime).toBeGreaterThan(idle.cpuTime)

    await Promise.all(processes.map((process) => process.kill()))
    await until(
      async () => {
        const { terminals, pids } = await session.stats()
        return (terminals === 0 && pids <= busy.pids - 3) || undefined
      },
      () => 'the processes stay',
    )
    await session.delete()
    expect(await rejectionOf(session.stats())).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    expect(await sandbox.stats()).toEqual({ ...NOTHING, sessions: 0 })
  })

  itHolds('of the sandbox are the sum of its sessions, also while they are busy', async ({ sandbox }) => {
    const [one, two] = await Promise.all([
      sandbox.createSession({ id: 'one' }),
      sandbox.createSession({ id: 'two' }),
    ])
    const terminals = async () =>
      Promise.all([sandbox, one, two].map(async (place) => (await place.stats()).terminals))
    await Promise.all([one, two].map((session) => session.startProcess('exec sleep 600', { pty: true })))
    await holds(async () => String(await terminals()) === '2,1,1')
    const run = two.execStream('echo on; sleep 600')
    const events = run[Symbol.asyncIterator]()
    await printed(events)
    expect(await sandbox.stats()).toMatchObject({ sessions: 2, terminals: 2 })
    expect((await two.stats()).pids).toBeGreaterThanOrEqual(2)
    await run.kill()
  })
})
