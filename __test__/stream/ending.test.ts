/** The end of a command that is killed or aborted, or whose session or sandbox ends. */
import { expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, endOf, made, shapeOf } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

itInEveryMode('kill ends the whole tree, and the stream with complete', async ({ sandbox, directory }) => {
  const [job, nap] = [proc.uniqueSleep(), proc.uniqueSleep()]
  await sandbox.exec(`x=1; ${job} &`)
  await proc.untilRuns(job)
  const stream = sandbox.execStream(`x=2; (setsid ${nap} &); touch begun; ${nap}; touch never`)
  const reading = all(stream)
  await made(directory, 'begun')
  expect(await stream.kill()).toBe(true)
  expect(proc.runs(nap)).toBe(false)
  expect(proc.runs(job)).toBe(true)
  const events = await reading
  expect(shapeOf(events)).toBe('start complete')
  expect(events.at(-1)).toMatchObject({ exitCode: null, signal: 'SIGTERM', result: { cancelled: true } })
  expect((await sandbox.exec('echo $x; ls')).stdout).toBe('2\nbegun\n')
})

itInSandbox('of a kill and an abort, the first decides how a stream ends', async ({ sandbox, directory }) => {
  const begun = async (name: string) => {
    const controller = new AbortController()
    const stream = sandbox.execStream(`touch ${name}; sleep 60`, { signal: controller.signal })
    await made(directory, name)
    return { controller, stream }
  }
  const aborted = await begun('aborted')
  aborted.controller.abort()
  expect(await aborted.stream.kill()).toBe(true)
  expect(await rejectionOf(aborted.stream.result)).toMatchObject({ code: 'ABORT_ERR' })
  const killed = await begun('killed')
  const kill = killed.stream.kill()
  killed.controller.abort()
  expect(await kill).toBe(true)
  expect(await killed.stream.result).toMatchObject({ signal: 'SIGTERM', cancelled: true })
})

itInSandbox(
  'streams end in an error when their session or their sandbox ends',
  async ({ sandbox, directory }) => {
    const session = await sandbox.createSession({ id: 'goes' })
    const first = all(session.execStream('touch one; sleep 60'))
    const second = all(sandbox.execStream('touch two; sleep 60'))
    const queued = all(sandbox.execStream('touch three'))
    await made(directory, 'one')
    await made(directory, 'two')
    await sandbox.deleteSession('goes')
    expect(endOf(await first)).toMatchObject({ code: 'SESSION_DESTROYED' })
    await sandbox.destroy()
    for (const events of [await second, await queued])
      expect(['SANDBOX_DESTROYED', 'SESSION_DESTROYED']).toContain((endOf(events) as { code: string }).code)
    const late = sandbox.execStream('true')
    expect(endOf(await all(late))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await rejectionOf(late.result)).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await late.kill()).toBe(false)
  },
  { destroys: true },
)
