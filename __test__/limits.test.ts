/** Limits: what needs no controller is enforced everywhere, the rest is enforced or refused, never ignored. */
import { describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { itInEveryMode } from './helpers/modes.js'
import { rejectionOf } from './helpers/thrown.js'

const isRoot = process.getuid?.() === 0

itInEveryMode(
  'openFiles binds every process of the sandbox, whatever happens to the shell',
  async ({ sandbox }) => {
    expect((await sandbox.exec('ulimit -n; bash -c "ulimit -n"')).stdout).toBe('100\n100\n')
    await sandbox.exec('kill -9 $$')
    expect((await sandbox.exec('ulimit -n')).stdout).toBe('100\n')
    await sandbox.exec('exit 3')
    expect((await sandbox.exec('ulimit -n')).stdout).toBe('100\n')
    const process = await sandbox.startProcess('ulimit -n', { limits: { openFiles: 50 } })
    await process.waitForExit()
    expect((await process.getLogs()).stdout).toBe('50\n')
  },
  { options: { limits: { openFiles: 100 } } },
)

itInEveryMode(
  'a command that has reached one says which',
  async ({ sandbox }) => {
    const opens = (count: number) => `python3 -c "files = [open('/dev/null') for _ in range(${count})]"`
    const { exitCode, denials } = await sandbox.exec(opens(200))
    expect([exitCode, denials]).toEqual([
      1,
      [{ kind: 'limit', target: 'openFiles', rule: 'limits.openFiles' }],
    ])
    expect((await sandbox.exec(`${opens(50)}; echo too many open files >&2`)).denials).toEqual([])
    expect((await sandbox.exec('echo failed >&2; false')).denials).toEqual([])
  },
  { options: { limits: { openFiles: 100 } } },
)

describe('a limit that cannot be enforced', () => {
  it('keeps a process from being started, and leaves nothing of it', () =>
    withSandbox(
      async ({ sandbox }) => {
        const start = sandbox.startProcess('true', { processId: 'p', limits: { openFiles: 500 } })
        const error = await rejectionOf(start)
        expect(error).toMatchObject({ code: 'LIMIT_UNSUPPORTED' })
        expect(error.message).toContain('openFiles')
        expect(await sandbox.getProcess('p')).toBe(null)
      },
      { options: { limits: { openFiles: 100 } } },
    ))

  it('is named together with the reason', () =>
    withSandbox(async ({ sandbox }) => {
      const { controllers } = await sandbox.capabilities()
      for (const [name, controller] of [
        ['memory', 'memory'],
        ['cpus', 'cpu'],
        ['pids', 'pids'],
      ] as const) {
        if (controllers.includes(controller) || (name === 'pids' && !isRoot)) continue
        const error = await rejectionOf(sandbox.startProcess('true', { limits: { [name]: 1_000_000 } }))
        expect(error).toMatchObject({ code: 'LIMIT_UNSUPPORTED' })
        expect(error.message).toContain(name)
      }
    }))

  it('keeps the first call of a sandbox from doing anything', () =>
    withSandbox(
      async ({ sandbox }) => {
        const error = await rejectionOf(sandbox.exec('true'))
        expect(error).toMatchObject({ code: 'LIMIT_UNSUPPORTED' })
      },
      // More descriptors than any system gives.
      { options: { limits: { openFiles: 4_000_000_000 } }, destroys: true },
    ))
})
