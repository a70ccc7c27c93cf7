/** Suites that replace the timers and clocks of the process, here and over HTTP. */

import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, vi } from 'vitest'
import { freePort, serverCommand } from '../helpers/serving.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { type ContractPlace, itHolds } from './helper.js'

const NAMES = ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] as const

/**
 * Replaces the global timers and clocks by ones that stand still, and returns what restores them. The fake timers of Bun itself
 * are part of its event loop: there is no original that a program could keep.
 */
function stopTime(): () => void {
  if (process.versions.bun === undefined) {
    vi.useFakeTimers()
    return () => void vi.useRealTimers()
  }
  const originals = Object.fromEntries(NAMES.map((name) => [name, globalThis[name]]))
  const never = () => ({ ref() {}, unref() {}, refresh() {} })
  const nothing = () => {}
  const fakes = { setTimeout: never, clearTimeout: nothing, setInterval: never, clearInterval: nothing }
  Object.assign(globalThis, fakes, { performance: { now: () => 0 } })
  return () => void Object.assign(globalThis, originals)
}

async function withFakeTimers(test: () => Promise<void>): Promise<void> {
  const restore = stopTime()
  try {
    await test()
  } finally {
    restore()
  }
}

function itHoldsWithFakeTimers(name: string, test: (place: ContractPlace) => Promise<void>): void {
  itHolds(name, (place) => withFakeTimers(() => test(place)))
}

describe('while the timers are fake', () => {
  itHoldsWithFakeTimers(
    'waitForPort waits for a server that begins later',
    async ({ sandbox, directory }) => {
      const port = await freePort()
      const [program = '', ...words] = serverCommand({ port })
      const quoted = [program, ...words].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
      const process = await sandbox.startProcess(
        `until [ -e ${directory}/go ]; do sleep 0.01; done; exec ${quoted}`,
      )
      const waiting = process.waitForPort(port, { interval: 10 })
      writeFileSync(path.join(directory, 'go'), '')
      await waiting
      await process.kill()
    },
  )

  itHoldsWithFakeTimers('startService waits for a server', async ({ sandbox }) => {
    const port = await freePort()
    const service = await sandbox.startService(serverCommand({ port }), { healthCheck: { port } })
    expect(service.status).toBe('running')
    await service.kill()
  })

  itHoldsWithFakeTimers('waits end by their timeout', async ({ sandbox }) => {
    const process = await sandbox.startProcess('sleep 600')
    const waits = [
      process.waitForExit({ timeout: 50 }),
      process.waitForLog('never', { timeout: 50 }),
      process.waitForPort(1, { timeout: 50 }),
    ]
    expect(await rejectionsOf(waits)).toMatchObject([
      { code: 'PROCESS_WAIT_TIMEOUT' },
      { code: 'PROCESS_READY_TIMEOUT' },
      { code: 'PROCESS_READY_TIMEOUT' },
    ])
    expect(await process.waitFor({ timeout: 50 })).toMatchObject({ by: 'timeout' })
    await process.kill()
  })

  itHoldsWithFakeTimers('detachAfter frees the session', async ({ sandbox }) => {
    const { process } = await sandbox.exec('sleep 600', { detachAfter: 50 })
    expect(process?.status).toBe('running')
    await process?.kill()
  })

  itHoldsWithFakeTimers('a timeout kills a command', async ({ sandbox }) => {
    expect(await rejectionOf(sandbox.exec('sleep 600', { timeout: 50 }))).toMatchObject({
      code: 'COMMAND_TIMEOUT',
    })
  })
})
