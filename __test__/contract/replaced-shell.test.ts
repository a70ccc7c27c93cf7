/** A program that has replaced the shell (`exec`) is killed like any other, here and over HTTP. */
import type { SandboxError } from 'nacre'
import { describe, expect } from 'vitest'
import { inTime } from '../helpers/in-time.js'
import { printed } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

/** Cleans up when it is asked to end. */
const POLITE = `exec bash -c 'trap "echo cleaned; exit 5" TERM; echo ready; while :; do sleep 0.01; done'`
const STUBBORN = `exec bash -c 'trap "echo asked" TERM; echo ready; while :; do sleep 0.01; done'`

describe('a program that has replaced the shell', () => {
  itHolds('cleans up when its stream is killed', async ({ sandbox }) => {
    const stream = sandbox.execStream(`cd /usr; ${POLITE}`)
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    expect(await stream.kill()).toBe(true)
    expect(await stream.result).toMatchObject({
      signal: 'SIGTERM',
      exitCode: null,
      stdout: 'ready\ncleaned\n',
    })
    expect(await sandbox.exec('echo next')).toMatchObject({ stdout: 'next\n' })
  })

  itHolds('cleans up after a timeout and an abort', async ({ sandbox }) => {
    const end = (timeout: number) => rejectionOf(sandbox.exec(POLITE, { timeout }))
    const late = await inTime(500, end, (error) => (error as SandboxError).result?.stdout !== '')
    expect(late).toMatchObject({ code: 'COMMAND_TIMEOUT', result: { stdout: 'ready\ncleaned\n' } })
    const abort = new AbortController()
    const options = { signal: abort.signal, onStdout: () => abort.abort() }
    const aborted = await rejectionOf(sandbox.exec(POLITE, options))
    expect(aborted).toMatchObject({ name: 'AbortError', result: { stdout: 'ready\ncleaned\n' } })
  })

  itHolds('gets SIGKILL after the delay', async ({ sandbox }) => {
    const end = async (forceKillAfterDelay: number) => {
      const stream = sandbox.execStream(STUBBORN, { forceKillAfterDelay })
      const events = stream[Symbol.asyncIterator]()
      await printed(events)
      expect(await stream.kill()).toBe(true)
      return stream.result
    }
    const killed = await inTime(50, end, ({ stdout }) => stdout.includes('asked'))
    expect(killed).toMatchObject({ signal: 'SIGKILL', stdout: 'ready\nasked\n' })
  })

  itHolds('is ended by the signal that the caller names', async ({ sandbox }) => {
    const stream = sandbox.execStream('echo ready; exec sleep 600')
    const events = stream[Symbol.asyncIterator]()
    await printed(events)
    expect(await stream.kill('SIGINT')).toBe(true)
    expect(await stream.result).toMatchObject({ signal: 'SIGINT' })
  })
})
