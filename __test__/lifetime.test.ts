import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Process, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import * as proc from './helpers/proc.js'
import { rejectionOf, rejectionsOf } from './helpers/thrown.js'

const root = path.dirname(__dirname)

/** A process that ran before the end of everything was killed, which is as good as a rejection. */
async function refusedOrKilled(start: Promise<Process>): Promise<never> {
  const process = await start
  expect(await process.waitForExit()).toMatchObject({ exitCode: null, reason: 'killed' })
  throw Object.assign(new Error('it ran'), { code: 'SANDBOX_DESTROYED' })
}

/** Blocks the event loop, so that no event of the engine is handled. */
function pause(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds)
}

describe('destroy', () => {
  it('ends what runs, rejects what is pending and refuses what comes later', () =>
    withSandbox(
      async ({ sandbox }) => {
        const session = await sandbox.createSession()
        await sandbox.exec('sleep 60 & setsid sleep 60 & disown -a')
        const pending = [
          sandbox.exec('sleep 60'),
          sandbox.exec('echo queued'),
          session.exec('sleep 60'),
          refusedOrKilled(sandbox.startProcess('sleep 60')),
          sandbox.startService('sleep 60', { healthCheck: { log: 'never' } }),
          sandbox.setEnvVars({ A: 'b' }),
        ].map(rejectionOf)
        const destroyed = sandbox.destroy()
        expect(sandbox.destroy()).toBe(destroyed)
        await destroyed
        for (const rejection of await Promise.all(pending)) {
          expect(rejection).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        }
        const calls = [
          sandbox.exec('true'),
          session.exec('true'),
          sandbox.listSessions(),
          sandbox.capabilities(),
        ]
        for (const error of await rejectionsOf(calls)) {
          expect(error).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        }
        await session[Symbol.asyncDispose]()
      },
      { destroys: true },
    ))

  it('waits for the end of what a shell that dies at its start has started', () =>
    withSandbox(async ({ directory, tag }) => {
      const shell = path.join(directory, 'shell')
      const forks = 'for i in {1..300}; do setsid sleep 60 & done; sleep 0.1'
      writeFileSync(shell, `#!/bin/bash\n${forks}\nkill -9 $$`, { mode: 0o755 })
      const sandbox = new Sandbox({ shell, env: { TAG: tag } })
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SPAWN_FAILED' })
      await sandbox.destroy()
      expect(proc.tagged(tag).map(proc.show)).toEqual([])
    }))

  it('kills a process whose start is reported only afterwards', () =>
    withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec('true')
        const starting = sandbox.startProcess('sleep 60')
        pause(100)
        const destroyed = sandbox.destroy()
        pause(300)
        const process = await starting
        expect(await process.waitForExit()).toMatchObject({ exitCode: null, reason: 'killed' })
        expect(process.status).toBe('killed')
        await destroyed
      },
      { destroys: true },
    ))

  it('comes by itself at the end of `await using`', async () => {
    let outer: Sandbox | undefined
    {
      await using sandbox = new Sandbox()
      await sandbox.exec('true')
      outer = sandbox
    }
    expect(await rejectionOf(outer.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
  })
})

describe('capabilities', () => {
  it('says what the machine offers', () =>
    withSandbox(async ({ sandbox }) => {
      const found = await sandbox.capabilities()
      expect(['v2', 'none']).toContain(found.cgroup)
      expect(found.shell).toMatch(/bash$/)
      expect(found.shellVersion).toMatch(/^[4-9]\.\d+/)
      for (const flag of [found.cgroupKill, found.pidfd, found.procFd]) expect(flag).toBeTypeOf('boolean')
      for (const [controller, limit] of [
        ['memory', 'memory'],
        ['cpu', 'cpus'],
        ['pids', 'pids'],
      ] as const) {
        const note = found.notes.find((text) => text.includes(`the limit ${limit} is`))
        expect(note === undefined, controller).toBe(found.controllers.includes(controller))
      }
    }))
})

/** Runs a program in a host of its own and gives its output; the host must end by itself within 10 s. */
function host(program: string, executable = process.execPath, flags: string[] = []): string {
  const source = `const { Sandbox } = require('nacre'); const sandbox = new Sandbox(); ${program}`
  return execFileSync(executable, [...flags, '-e', source], { cwd: root, encoding: 'utf8', timeout: 10_000 })
}

describe('the host', () => {
  it('ends by itself while a sandbox is idle', () => {
    expect(host(`sandbox.exec('echo x').then(({ stdout }) => process.stdout.write(stdout))`)).toBe('x\n')
  })

  it('waits for a command that runs, and for nothing that the command left behind', () => {
    const program = `sandbox.exec('sleep 60 & sleep 0.3; echo x').then(({ stdout }) => process.stdout.write(stdout))`
    expect(host(program)).toBe('x\n')
  })

  it('waits for a stream, read or not, and not for one that has ended', () => {
    const program = `
      let seen
      const onComplete = ({ stdout }) => {
        seen = stdout
      }
      const read = async () => {
        for await (const { data } of sandbox.execStream('sleep 0.2; echo read')) if (data) process.stdout.write(data)
        sandbox.execStream('sleep 60 & sleep 0.2; echo not read', { onComplete })
      }
      process.on('exit', () => process.stdout.write(seen))
      read()
    `
    expect(host(program)).toBe('read\nnot read\n')
  })

  it('waits for destroy', () => {
    expect(host(`sandbox.exec('true').then(() => sandbox.destroy()).then(() => console.log('gone'))`)).toBe(
      'gone\n',
    )
  })

  it('collects a sandbox that was dropped, and with it everything it started', () => {
    const program = `
      const collect = globalThis.gc ?? (() => Bun.gc(true))
      const isThere = (pid) => require('node:fs').existsSync('/proc/' + pid)
      const start = async () => (await new Sandbox().exec('sleep 60 & echo $$ $!')).stdout.trim().split(' ')
      start().then((pids) => {
        const timer = setInterval(() => {
          collect()
          if (pids.some(isThere)) return
          clearInterval(timer)
          console.log(pids.length + ' gone')
        }, 10)
      })
    `
    const flags = process.versions.bun === undefined ? ['--expose-gc'] : []
    expect(host(program, process.execPath, flags)).toBe('2 gone\n')
  })
})
