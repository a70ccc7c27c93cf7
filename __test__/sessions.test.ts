import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { tagged } from './helpers/proc.js'
import { rejectionOf, rejectionsOf } from './helpers/thrown.js'

describe('sessions', () => {
  it('are isolated from each other', () =>
    withSandbox(async ({ sandbox, directory }) => {
      mkdirSync(path.join(directory, 'sub'))
      const session = await sandbox.createSession({ id: 'a', cwd: 'sub', env: { A: 'x', HOME: undefined } })
      await session.exec('export B=1; f() { :; }')
      expect((await session.exec('pwd; echo $A $B ${HOME-unset}')).stdout).toBe(
        `${directory}/sub\nx 1 unset\n`,
      )
      const { stdout } = await sandbox.exec('pwd; echo ${A-unset} ${B-unset}; type f 2>&1 | head -n 1')
      expect(stdout).toContain(`${directory}\nunset unset\n`)
      expect(stdout).toContain('not found')
    }))

  it('can be found, listed, used by id and deleted', () =>
    withSandbox(async ({ sandbox }) => {
      const { id } = await sandbox.createSession()
      expect(id).toMatch(/^[0-9a-f-]{36}$/)
      expect((await sandbox.getSession(id))?.id).toBe(id)
      expect((await sandbox.listSessions()).map((session) => session.id).sort()).toEqual(
        [id, 'default'].sort(),
      )
      await sandbox.exec('x=1', { sessionId: id })
      expect((await (await sandbox.getSession(id))?.exec('echo $x'))?.stdout).toBe('1\n')
      await sandbox.deleteSession(id)
      expect(await sandbox.getSession(id)).toBe(null)
      const calls = [sandbox.exec('true', { sessionId: id }), sandbox.deleteSession(id)]
      for (const error of await rejectionsOf(calls)) {
        expect(error).toMatchObject({ code: 'SESSION_NOT_FOUND' })
      }
      expect(await rejectionOf(sandbox.setEnvVars({}, { sessionId: id }))).toMatchObject({
        code: 'SESSION_NOT_FOUND',
      })
    }))

  it('refuse an id that exists, also when both are created concurrently', () =>
    withSandbox(async ({ sandbox }) => {
      const both = await Promise.allSettled([
        sandbox.createSession({ id: 'a' }),
        sandbox.createSession({ id: 'a' }),
      ])
      expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
      expect(await rejectionOf(sandbox.createSession({ id: 'a' }))).toMatchObject({
        code: 'SESSION_ALREADY_EXISTS',
      })
    }))

  it('reject for a directory that does not exist, and leave nothing', () =>
    withSandbox(async ({ sandbox }) => {
      const rejection = await rejectionOf(sandbox.createSession({ id: 'a', cwd: '/no/such/directory' }))
      expect(rejection).toMatchObject({ code: 'CWD_NOT_FOUND' })
      expect(await sandbox.getSession('a')).toBe(null)
    }))

  it('run in parallel', () =>
    withSandbox(async ({ sandbox }) => {
      const sessions = await Promise.all(Array.from({ length: 4 }, () => sandbox.createSession()))
      // None ends before all have begun.
      const command = (index: number) =>
        `: >${index}; until [ -e 0 -a -e 1 -a -e 2 -a -e 3 ]; do sleep 0.01; done`
      await Promise.all(sessions.map((session, index) => session.exec(command(index))))
    }))

  it('end with everything that runs in them', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession()
      await session.exec('sleep 60 &')
      const run = rejectionOf(session.exec('sleep 60'))
      await session[Symbol.asyncDispose]()
      expect(await run).toMatchObject({ code: 'SESSION_DESTROYED' })
      await session[Symbol.asyncDispose]()
    }))

  it('give the default session back, new, after its deletion', () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.deleteSession('default')
      await sandbox.exec('x=1')
      await sandbox.deleteSession('default')
      expect((await sandbox.exec('echo ${x-unset}')).stdout).toBe('unset\n')
    }))
})

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
  for (const [name, call] of Object.entries(afterwards)) {
    it(`${name} runs in a new one`, () =>
      withSandbox(async ({ sandbox }) => {
        await sandbox.exec("x=1; trap '' TERM; sleep 61 &")
        const deleted = sandbox.deleteSession('default')
        expect(await call(sandbox)).toBe('unset\n')
        await deleted
      }))
  }

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

describe('setEnvVars', () => {
  it('sets and unsets exported variables, whatever their values', () =>
    withSandbox(async ({ sandbox }) => {
      const awkward = '\n\'"$(touch ran)`touch ran`\\ \u{1f41a}\t!'
      await sandbox.exec('export GONE=1')
      await sandbox.setEnvVars({ A: awkward, B: '', GONE: undefined })
      const { stdout } = await sandbox.exec('printenv A; printenv B; printenv GONE; ls')
      expect(stdout).toBe(`${awkward}\n\n`)
    }))

  it('reaches the session it names, in turn with its commands', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession({ id: 'a' })
      const before = session.exec('sleep 0.1; echo ${A-unset}')
      const set = sandbox.setEnvVars({ A: '1' }, { sessionId: 'a' })
      const after = session.exec('echo $A')
      expect([(await before).stdout, await set, (await after).stdout]).toEqual(['unset\n', undefined, '1\n'])
      await session.setEnvVars({ A: undefined })
      expect((await session.exec('echo ${A-unset}')).stdout).toBe('unset\n')
      expect((await sandbox.exec('echo ${A-unset}')).stdout).toBe('unset\n')
    }))
})
