/** One caller holds a session or a process, here and over HTTP. */
import type { Hold, Session } from 'nacre'
import { describe, expect } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

const HELD_BY_PERSON = {
  name: 'SandboxError',
  code: 'HELD',
  message: `session 'one' is held by "a person": try again when it is released`,
}

describe('session.hold', () => {
  itHolds('lets only the owner use the session', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    const hold = await session.hold('a person')
    expect(hold.owner).toBe('a person')
    const other = (await sandbox.getSession('one')) as Session
    const refused = [
      () => session.exec('touch ran'),
      () => other.exec('touch ran'),
      () => session.execStream('touch ran').result,
      () => session.$`touch ran`,
      () => session.startProcess('touch ran'),
      () => session.setEnvVars({ A: '1' }),
      () => session.hold('another'),
      () => sandbox.exec('touch ran', { sessionId: 'one' }),
      () => sandbox.startProcess('touch ran', { sessionId: 'one' }),
      () => session.startService('touch ran', { healthCheck: { log: 'x' } }),
      () => sandbox.startService('touch ran', { sessionId: 'one', healthCheck: { log: 'x' } }),
      () => sandbox.setEnvVars({ A: '1' }, { sessionId: 'one' }),
      () => hold.held.hold('a person'),
    ]
    for (const call of refused)
      expect(await rejectionOf(Promise.resolve(call())), String(call)).toMatchObject(HELD_BY_PERSON)

    const { held } = hold
    expect(held.id).toBe('one')
    await held.setEnvVars({ B: '2' })
    expect((await held.exec('cd /usr; echo "$A$B"')).stdout).toBe('2\n')
    expect((await held.execStream('pwd').result).stdout).toBe('/usr\n')
    expect((await held.$`pwd`).stdout).toBe('/usr\n')
    const process = await held.startProcess('pwd')
    await process.waitForExit()
    expect((await process.getLogs()).stdout).toBe('/usr\n')
    const service = await held.startService('echo on; pwd; sleep 600', { healthCheck: { command: 'pwd' } })
    expect([service.sessionId, await service.waitForLog('/usr')]).toMatchObject(['one', { line: '/usr' }])
    await service.kill()

    await hold.release()
    await hold.release()
    await hold.ended
    expect((await session.exec('pwd')).stdout).toBe('/usr\n')
    expect(await rejectionOf(held.exec('true'))).toMatchObject({
      ...{ code: 'HELD', message: expect.stringContaining("your hold on session 'one' has ended") },
    })
    expect(await sandbox.files.exists('ran')).toBe(false)
  })

  itHolds('leaves what runs, files, kills and other sessions alone', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    const run = session.execStream('read line; echo "got $line"; sleep 600', { input: 'pipe' })
    const events = run[Symbol.asyncIterator]()
    await events.next()
    const hold = await session.hold('a person')
    await run.write('text\n')
    expect((await events.next()).value).toMatchObject({ type: 'stdout', data: 'got text\n' })
    const [command] = await session.running()
    expect(await session.killCommand(command?.id ?? '')).toBe(true)
    await run.result
    expect(await session.history()).toHaveLength(1)
    await session.files.write('file', 'x')
    expect(await session.files.read('file')).toBe('x')
    expect((await sandbox.exec('echo other')).stdout).toBe('other\n')
    await session.delete()
    await hold.ended
    const next = await sandbox.createSession({ id: 'one' })
    expect((await next.exec('echo new')).stdout).toBe('new\n')
    expect(await rejectionOf(hold.held.exec('true'))).toMatchObject({ code: 'HELD' })
    await hold.release()
  })

  itHolds('refuses owners and sessions that it cannot have', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    for (const owner of ['', 'x'.repeat(101), 'a\nb', 1 as never])
      expect(await rejectionOf(session.hold(owner))).toMatchObject({
        ...{ code: 'INVALID_OPTION', message: expect.stringContaining('owner must be 1 to 100 characters') },
      })
    await session.delete()
    expect(await rejectionOf(session.hold('x'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    const usual = (await sandbox.getSession('default')) as Session
    {
      await using hold = await usual.hold('x')
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'HELD' })
      expect((await hold.held.exec('echo ok')).stdout).toBe('ok\n')
    }
    expect((await sandbox.exec('echo ok')).stdout).toBe('ok\n')
  })

  itHolds(
    'ends with the sandbox',
    async ({ sandbox }) => {
      const session = await sandbox.createSession({ id: 'one' })
      const hold: Hold<Session> = await session.hold('x')
      await sandbox.destroy()
      await hold.ended
    },
    { destroys: true },
  )

  itHolds(
    'ends when a rollback ends its session',
    async ({ sandbox }) => {
      const usual = (await sandbox.getSession('default')) as Session
      const { id } = await sandbox.checkpoint()
      const [lasts, ends] = [
        await usual.hold('x'),
        await (await sandbox.createSession({ id: 'one' })).hold('x'),
      ]
      await sandbox.rollback(id)
      await ends.ended
      const next = await sandbox.createSession({ id: 'one' })
      expect((await next.exec('echo new')).stdout).toBe('new\n')
      expect((await lasts.held.exec('echo mine')).stdout).toBe('mine\n')
      await lasts.release()
    },
    { options: { workspace: 'copy-on-write' } },
  )
})

describe('heldBy', () => {
  itHolds('names the owner of a hold while it lasts', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    const run = session.execStream('sleep 600')
    await run[Symbol.asyncIterator]().next()
    const process = await session.startProcess('cat', { input: 'pipe', processId: 'cat' })
    const owners = async () => {
      const [listed] = await sandbox.listProcesses()
      const [running] = await session.running()
      await process.getStatus()
      return [
        running?.heldBy,
        listed?.heldBy,
        (await sandbox.getProcess('cat'))?.toJSON().heldBy,
        process.heldBy,
      ]
    }
    expect(await owners()).toEqual([null, null, null, null])
    const hold = await session.hold('a person')
    expect(await owners()).toEqual(['a person', null, null, null])
    const typing = await process.hold('another')
    expect(await owners()).toEqual(['a person', 'another', 'another', 'another'])
    expect(process.heldBy).toBe('another')
    await hold.release()
    expect(await owners()).toEqual([null, 'another', 'another', 'another'])
    await typing.release()
    expect(await owners()).toEqual([null, null, null, null])
    await process.hold('a third')
    await process.kill()
    expect(await process.getStatus()).toBe('killed')
    expect(process.heldBy).toBeNull()
  })
})

describe('process.hold', () => {
  itHolds('lets only the owner write', async ({ sandbox }) => {
    const process = await sandbox.startProcess('cat', { input: 'pipe', processId: 'cat' })
    const hold = await process.hold('a person')
    const other = await sandbox.getProcess('cat')
    const message = `process 'cat' is held by "a person": try again when it is released`
    for (const call of [
      () => process.write('no\n'),
      () => other?.write('no\n'),
      () => process.closeInput(),
      () => process.hold('another'),
    ])
      expect(await rejectionOf(Promise.resolve(call())), String(call)).toMatchObject({
        code: 'HELD',
        message,
      })
    await hold.held.write('yes\n')
    await process.waitForLog('yes')
    await process.getStatus()
    expect(process.handedBack).toBeNull()
    for (const note of ['', 'a\nb', 'x'.repeat(201)])
      expect(await rejectionOf(hold.release(note))).toMatchObject({ code: 'INVALID_OPTION' })
    const released = Date.now()
    await hold.release('said yes')
    await hold.release('too late')
    await process.getStatus()
    const { handedBack } = process
    expect(handedBack).toMatchObject({ owner: 'a person', note: 'said yes' })
    expect(handedBack?.time.getTime()).toBeGreaterThanOrEqual(released)
    await process.write('again\n')
    await process.waitForLog('again')
    expect(await rejectionOf(hold.held.write('late\n'))).toMatchObject({ code: 'HELD' })
    expect((await process.getLogs()).stdout).toBe('yes\nagain\n')
    const last = await process.hold('x')
    await last.held.closeInput()
    expect(await process.waitForExit()).toMatchObject({ exitCode: 0 })
    await last.ended
  })

  itHolds('keeps a terminal, and ends with its process', async ({ sandbox }) => {
    const process = await sandbox.startProcess('read line; echo "got $line"; sleep 600', { pty: true })
    const hold = await process.hold('a person')
    expect(await rejectionOf(process.write('no\n'))).toMatchObject({ code: 'HELD' })
    expect(await rejectionOf(process.resize(100, 30))).toMatchObject({ code: 'HELD' })
    expect(await hold.held.resize(101, 31)).toBe(true)
    await process.getStatus()
    expect(process.terminal).toMatchObject({ cols: 101, rows: 31 })
    await hold.held.write('text\n')
    await process.waitForLog('got text')
    expect(await process.kill()).toBe(true)
    await hold.ended
    expect(await rejectionOf(process.hold('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
    expect(await rejectionOf(process.write('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
  })

  itHolds(
    'holds the input of a command that became a process, also for its own stream',
    async ({ sandbox }) => {
      const stream = sandbox.execStream('cat', { input: 'pipe' })
      await stream[Symbol.asyncIterator]().next()
      const process = await stream.detach()
      const hold = await process.hold('a person')
      expect(await rejectionOf(stream.write('theirs\n'))).toMatchObject({ code: 'HELD' })
      expect(await rejectionOf(stream.closeInput())).toMatchObject({ code: 'HELD' })
      await hold.held.write('owned\n')
      await hold.release()
      await stream.write('free\n')
      await stream.closeInput()
      await process.waitForExit()
      expect((await process.getLogs()).stdout).toBe('owned\nfree\n')
    },
  )

  itHolds('can be released after the end of everything', async ({ sandbox }) => {
    const process = await sandbox.startProcess('cat', { input: 'pipe' })
    const hold = await process.hold('a person')
    await process.kill()
    await hold.ended
    await hold.release()
  })

  itHolds('needs an input to hold', async ({ sandbox }) => {
    const process = await sandbox.startProcess('sleep 600')
    expect(await rejectionOf(process.hold('x'))).toMatchObject({
      ...{ code: 'INVALID_OPTION', message: "hold needs a process that was started with input: 'pipe'" },
    })
    await process.kill()
  })
})
