/** Commands that are answered on the thread that has called them: nothing of them is lost or left, and all is reported. */
import { readdirSync, readlinkSync } from 'node:fs'
import type { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { holds, until } from '../helpers/until.js'

/** Runs quick commands: the next caller waits for its answer. */
async function burst(session: Pick<Sandbox, 'exec'>, count: number): Promise<void> {
  for (let index = 0; index < count; index++) await session.exec('true')
}

/** How many pipes this process has open. */
function pipes(): number {
  const isPipe = (fd: string) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith('pipe:')
    } catch {
      return false
    }
  }
  return readdirSync('/proc/self/fd').filter(isPipe).length
}

/** Waits until no more pipes are open than before. */
function untilPipesAreClosed(before: number): Promise<unknown> {
  return until(
    () => pipes() <= before || undefined,
    () => `${pipes() - before} pipes are left`,
  )
}

const seq = Array.from({ length: 200_000 }, (_, index) => `${index + 1}\n`).join('')

it('output of a slow command with a scope of its own is complete, in new pipes too', () =>
  withSandbox(async ({ sandbox }) => {
    for (const options of [{ cwd: '/' }, { env: { A: 'b' } }]) {
      for (let round = 0; round < 10; round++) {
        const session = await sandbox.createSession()
        const before = pipes()
        await burst(session, 20)
        // A fork: its pipes are not used again, and the next ones are opened by the caller.
        await session.exec('(:)')
        await untilPipesAreClosed(before)
        await burst(session, 3)
        const { stdout } = await session.exec('seq 200000', { ...options, timeout: 20_000 })
        expect(stdout === seq).toBe(true)
        await sandbox.deleteSession(session.id)
      }
    }
  }))

it('every command of a burst is reported soon after it', () =>
  withSandbox(async ({ sandbox }) => {
    const session = await sandbox.createSession()
    const abort = new AbortController()
    let ended = 0
    const reading = (async () => {
      for await (const event of sandbox.events({ signal: abort.signal }))
        if (event.type === 'commandEnded' && event.sessionId === session.id) ended++
    })().catch(() => {})
    await session.exec('true')
    await holds(() => ended > 0)
    for (let round = 0; round < 60; round++) {
      const expected = ended + 30 + ((round * 37) % 200)
      await burst(session, expected - ended)
      await until(
        () => ended === expected || undefined,
        () => `${ended} of ${expected} commands are reported`,
      )
    }
    abort.abort()
    await reading
  }))

it('an event counts the bytes that were not kept', () =>
  withSandbox(async ({ sandbox }) => {
    const abort = new AbortController()
    const counts: number[] = []
    const reading = (async () => {
      for await (const event of sandbox.events({ signal: abort.signal }))
        if (event.type === 'commandEnded') counts.push(event.stdoutBytes)
    })().catch(() => {})
    await burst(sandbox, 20)
    for (let round = 0; round < 10; round++) await sandbox.exec("printf '%04000d' 0", { maxBuffer: 64 })
    await until(
      () => counts.length >= 30 || undefined,
      () => `${counts.length} events`,
    )
    abort.abort()
    await reading
    expect(counts.slice(-10)).toEqual(Array(10).fill(4000))
  }))

it('idle sessions keep no pipes', () =>
  withSandbox(async ({ sandbox }) => {
    const sessions = await Promise.all(Array.from({ length: 20 }, () => sandbox.createSession()))
    const before = pipes()
    for (const session of sessions) {
      await session.exec('cd /')
      await burst(session, 5)
    }
    await untilPipesAreClosed(before)
  }))
