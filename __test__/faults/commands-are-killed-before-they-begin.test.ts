/** The interrupt reaches the shell before the command does. The command must not begin after it. */
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { isRest, itInEveryMode, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Longer than a test may take: a command that needs it was not signalled. */
const grace = { forceKillAfterDelay: 600_000 }

/** The engine continues a shell that does not read its command within this time. */
const UNREAD_MS = 100

itInEveryMode(
  'a command that a stopped shell has not taken yet never begins, and the state stays',
  async ({ sandbox, directory }) => {
    const { stdout: shell } = await sandbox.exec('x=1; f() { echo f; }; echo $$')
    /** Whether the command was killed before the engine could continue the shell for it. */
    const isKilledInTime = async (way: 'timeout' | 'abort') => {
      await sandbox.exec('y=$((y + 1))')
      // It runs behind a standby with that state; after that the engine has nothing to do in the shell.
      await sandbox.exec('true')
      // The signals that interrupt and continue it come together, and a signal is handled before a request is read.
      process.kill(Number(shell), 'SIGSTOP')
      await proc.untilStopped(Number(shell))
      const controller = new AbortController()
      const options = way === 'timeout' ? { timeout: UNREAD_MS } : { signal: controller.signal }
      const begun = performance.now()
      const run = rejectionOf(sandbox.exec('touch begun; x=2; /bin/cat; sleep 60', { ...grace, ...options }))
      if (way === 'abort') controller.abort()
      const isInTime = way === 'timeout' || performance.now() - begun < UNREAD_MS
      const { code } = (await run) as Error & { code: string }
      expect(code).toBe(way === 'timeout' ? 'COMMAND_TIMEOUT' : 'ABORT_ERR')
      if (!isInTime) {
        await sandbox.exec('x=1; rm -f begun')
        return undefined
      }
      const { stdout, sessionRestarted } = await sandbox.exec('echo $x; f')
      expect({ way, stdout, sessionRestarted }).toEqual({ way, stdout: '1\nf\n', sessionRestarted: false })
      expect(readdirSync(directory)).toEqual([])
      return true
    }
    for (let round = 0; round < 2; round++) {
      for (const way of ['timeout', 'abort'] as const) {
        await until(
          () => isKilledInTime(way),
          () => `this process is too slow to ${way} within ${UNREAD_MS} ms`,
        )
      }
    }
  },
)

itInEveryMode('a shell that is stopped while the engine works in it is continued', async ({ sandbox }) => {
  const { stdout: shell } = await sandbox.exec('x=1; echo $$')
  // A snapshot is made when nothing has run for 8 ms: some of these hit it, the others what changes the directory.
  for (let wait = 6; wait < 14; wait++) {
    await sandbox.exec('x=$((x + 1))')
    await sleep(wait)
    process.kill(Number(shell), 'SIGSTOP')
    expect(await sandbox.exec('pwd', { cwd: '/' })).toMatchObject({ stdout: '/\n', sessionRestarted: false })
  }
  expect((await sandbox.exec('echo $x $$')).stdout).toBe(`9 ${shell}`)
})

itInEveryMode('a command that is aborted in its first instants ends immediately', async ({ sandbox }) => {
  await sandbox.exec('x=1')
  for (let round = 0; round < 40; round++) {
    const controller = new AbortController()
    const run = sandbox.exec('/bin/cat /dev/zero >/dev/null; sleep 60', {
      ...grace,
      signal: controller.signal,
    })
    if (round % 2 === 0) setImmediate(() => controller.abort())
    else setTimeout(() => controller.abort(), round / 10)
    await rejectionOf(run)
  }
  expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
})

// The shell ends at once, while its fork still has the handlers of the shell.
for (const mode of plain) {
  it(`a program that is aborted in its first instants ends immediately, ${mode.name}`, () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      for (let round = 0; round < (isRest ? 1000 : 150); round++) {
        const controller = new AbortController()
        const run = sandbox.exec('sleep 600', { ...grace, signal: controller.signal })
        setTimeout(() => controller.abort(), (round * 7) % 20)
        await rejectionOf(run)
      }
    }))
}
