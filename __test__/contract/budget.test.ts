/** Budgets end what has used them up, here and over HTTP. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { copyOnWrite } from '../helpers/in-workspace.js'
import { withSandbox } from '../helpers/invariants.js'
import { enter, itInEveryMode, modes, plain } from '../helpers/modes.js'
import { all, endOf, made, textOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { itHolds, processIn } from './helper.js'

/** Uses a processor for ever. */
const BUSY = 'while :; do :; done'
/** A process that nothing but its session has to do with, and that writes its pid to a file. */
const daemon = (file: string, program: string) => `(setsid bash -c 'echo $$ > ${file}; ${program}' &)`

const BY_COMMAND = { by: 'budget', reason: 'budget.cpuMs of the command is 100' }

describe('the budget of a command', () => {
  itHolds('ends it with its output so far, and the session goes on', async ({ sandbox }) => {
    await sandbox.exec('x=1')
    const error = (await rejectionOf(
      sandbox.exec(`x=2; echo so far; ${BUSY}`, { budget: { cpuMs: 100 } }),
    )) as SandboxError
    expect(error).toMatchObject({ code: 'BUDGET_EXCEEDED', kind: 'limit' })
    expect(error.message).toMatch(
      /has used its budget up, and was ended by SIGTERM \(budget\.cpuMs of the command is 100\) after /,
    )
    expect(error.result).toMatchObject({
      stdout: 'so far\n',
      success: false,
      timedOut: false,
      cancelled: false,
      signal: 'SIGTERM',
      killedBy: BY_COMMAND,
      sessionRestarted: false,
    })
    expect(error.result?.usage?.cpuMs).toBeGreaterThanOrEqual(90)
    expect((await sandbox.exec('echo $x', { budget: { cpuMs: 60_000 } })).stdout).toBe('2\n')
  })

  itHolds('counts and ends what leaves its process group and its parents', async ({ sandbox, directory }) => {
    const file = path.join(directory, 'daemon')
    const command = `${daemon(file, BUSY)}; sleep 600`
    expect(await rejectionOf(sandbox.exec(command, { budget: { cpuMs: 100 } }))).toMatchObject({
      code: 'BUDGET_EXCEEDED',
    })
    expect(processIn(file)).toBeUndefined()
  })

  itHolds('ends a stream, and a command that has become a process', async ({ sandbox }) => {
    const budget = { cpuMs: 100 }
    const events = await all(sandbox.execStream(`echo out; ${BUSY}`, { budget }))
    expect(textOf(events)).toBe('out\n')
    expect(endOf(events)).toMatchObject({ code: 'BUDGET_EXCEEDED', result: { killedBy: BY_COMMAND } })
    const { process } = await sandbox.exec(`sleep 0.05; ${BUSY}`, { budget, detachAfter: 1 })
    expect(await process?.waitForExit()).toMatchObject({ signal: 'SIGTERM', reason: 'killed' })
    expect((await sandbox.getProcess(process?.id ?? ''))?.killedBy).toEqual(BY_COMMAND)
  })

  itHolds('and a timeout: what comes first ends the command', async ({ sandbox }) => {
    const slow = sandbox.exec('sleep 600', { budget: { cpuMs: 60_000 }, timeout: 50 })
    expect(await rejectionOf(slow)).toMatchObject({ code: 'COMMAND_TIMEOUT' })
    const busy = sandbox.exec(BUSY, { budget: { cpuMs: 50 }, timeout: 600_000, outputLimit: 10 })
    expect(await rejectionOf(busy)).toMatchObject({ code: 'BUDGET_EXCEEDED' })
    const loud = sandbox.exec('yes', { budget: { cpuMs: 60_000 }, outputLimit: 10 })
    expect(await rejectionOf(loud)).toMatchObject({ code: 'OUTPUT_LIMIT' })
  })

  itInEveryMode('does not count what the session does beside it', async ({ sandbox }) => {
    const other = await sandbox.startProcess(BUSY)
    const stream = sandbox.execStream('read; echo done', { budget: { cpuMs: 500 }, input: 'pipe' })
    await until(
      async () => ((await other.stats())?.cpuTime ?? 0) > 1000 || undefined,
      () => 'the process uses no processor',
    )
    await stream.write('\n')
    expect((await stream.result).stdout).toBe('done\n')
    await other.kill()
  })

  for (const mode of [...modes.slice(1), ...plain])
    it(`holds ${mode.name}`, async () => {
      const leave = enter(mode)
      try {
        await withSandbox(async ({ sandbox, directory }) => {
          const file = path.join(directory, 'daemon')
          const command = `echo out; ${daemon(file, BUSY)}; sleep 600`
          const error = (await rejectionOf(sandbox.exec(command, { budget: { cpuMs: 100 } }))) as SandboxError
          expect(error).toMatchObject({ code: 'BUDGET_EXCEEDED', result: { stdout: 'out\n' } })
          expect(processIn(file)).toBeUndefined()
          const { id } = await sandbox.createSession({ budget: { cpuMs: 100 } })
          const used = sandbox.exec(`${daemon(file, 'sleep 600')}; ${BUSY}`, { sessionId: id })
          expect(await rejectionOf(used)).toMatchObject({ code: 'BUDGET_EXCEEDED' })
          await until(
            () => processIn(file) === undefined || undefined,
            () => 'a daemon of the session lives',
          )
        })
      } finally {
        leave()
      }
    })

  it('keeps what a copy-on-write workspace can undo', () =>
    withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec('echo before > file')
        const command = sandbox.exec(`echo after > file; ${BUSY}`, { budget: { cpuMs: 50 } })
        expect(await rejectionOf(command)).toMatchObject({ code: 'BUDGET_EXCEEDED' })
        expect((await sandbox.exec('cat file')).stdout).toBe('after\n')
        await sandbox.undo()
        await sandbox.undo()
        expect((await sandbox.exec('cat file')).stdout).toBe('before\n')
      },
      { options: { workspace: { mode: 'copy-on-write', undoSteps: 5 } } },
    ))

  it('holds with isolation', () =>
    withSandbox(
      async ({ sandbox }) => {
        const command = sandbox.exec(`echo out; ${BUSY}`, { budget: { cpuMs: 50 } })
        const error = (await rejectionOf(command)) as SandboxError
        expect(error).toMatchObject({ code: 'BUDGET_EXCEEDED', result: { stdout: 'out\n' } })
      },
      { options: { ...copyOnWrite, isolation: 'workspace' } },
    ))
})

describe('the budget of a session', () => {
  itHolds('ends all of it, and refuses what comes later', async ({ sandbox, directory }) => {
    const session = await sandbox.createSession({ id: 'small', budget: { cpuMs: 200 } })
    const file = path.join(directory, 'daemon')
    await session.exec(daemon(file, 'sleep 600'))
    await made(directory, 'daemon')
    const idle = await session.startProcess('sleep 600')
    const running = session.exec('echo out; sleep 600')
    const queued = session.exec('touch queued')
    const settled = Promise.all([running, queued].map(rejectionOf)) as Promise<SandboxError[]>
    await session.startProcess(BUSY)
    const [first, second] = await settled
    const reason = "budget.cpuMs of session 'small' is 200"
    expect(first).toMatchObject({
      code: 'BUDGET_EXCEEDED',
      result: { stdout: 'out\n', killedBy: { by: 'budget', reason } },
    })
    // Over HTTP, it may arrive too late.
    const unrun = /was given up before it began \(budget\.cpuMs|has used up its budget\.cpuMs/
    expect(second).toMatchObject({ code: 'BUDGET_EXCEEDED', message: expect.stringMatching(unrun) })
    expect(await idle.waitForExit()).toMatchObject({ reason: 'killed', signal: 'SIGTERM' })
    const later = [session.exec('echo later'), session.startProcess('sleep 600')]
    for (const call of later)
      expect(await rejectionOf(call)).toMatchObject({
        code: 'BUDGET_EXCEEDED',
        message: expect.stringContaining("session 'small' has used up its budget.cpuMs of 200"),
      })
    await until(
      () => processIn(file) === undefined || undefined,
      () => 'a daemon of the session lives',
    )
    expect((await session.files.read('daemon')).toString()).toMatch(/^\d+\n$/)
    expect(existsSync(path.join(directory, 'queued'))).toBe(false)
    expect((await sandbox.exec('echo other')).stdout).toBe('other\n')
  })

  itHolds('counts many short commands together', async ({ sandbox }) => {
    const session = await sandbox.createSession({ budget: { cpuMs: 300 } })
    let [used, count] = [0, 0]
    const error = await rejectionOf(
      (async () => {
        for (;;) {
          const { usage } = await session.exec('for ((i = 0; i < 2000; i++)); do :; done')
          used += usage?.cpuMs ?? 0
          count++
        }
      })(),
    )
    expect(error).toMatchObject({ code: 'BUDGET_EXCEEDED' })
    expect([count > 5, used > 150]).toEqual([true, true])
  })
})

describe('the budget of a sandbox', () => {
  it('counts all of its sessions, deleted ones too', () =>
    withSandbox(
      async ({ sandbox }) => {
        const sessions = async () => {
          for (;;) {
            const session = await sandbox.createSession()
            await session.exec('for ((i = 0; i < 20000; i++)); do :; done')
            await session.delete()
          }
        }
        expect(await rejectionOf(sessions())).toMatchObject({
          code: 'BUDGET_EXCEEDED',
          message: expect.stringMatching(
            /the sandbox is 1000|the sandbox has used up its budget\.cpuMs of 1000/,
          ),
        })
        expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'BUDGET_EXCEEDED' })
      },
      { options: { budget: { cpuMs: 1000 } }, destroys: true },
    ))
})
