/** What keeps the host's event loop alive, and what does not. */
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'

async function outputOf(program: string): Promise<string> {
  const host = startHost(`const sandbox = new Sandbox(); (async () => { ${program} })()`)
  expect(await host.ended(10_000)).toBe(0)
  await expectGone(host.tag)
  return host.output()
}

describe('the host', () => {
  it('ends while a process runs without a wait for it, and the process with it', async () => {
    const program = `
      const process = await sandbox.startProcess('sleep 60', { onOutput() {}, onExit() {} })
      await process.getLogs()
      print(process.status)`
    expect(await outputOf(program)).toBe('running\n')
  })

  it('waits for a process while a wait for it is pending', async () => {
    const program = `
      const process = await sandbox.startProcess('sleep 0.3; exit 3')
      print(String((await process.waitForExit()).exitCode))`
    expect(await outputOf(program)).toBe('3\n')
  })

  it('waits for the next event of a log that is being read, and for no more', async () => {
    const program = `
      const process = await sandbox.startProcess('sleep 0.3; echo late; sleep 60')
      for await (const { data } of process.output()) { print(data.trim()); break }`
    expect(await outputOf(program)).toBe('late\n')
  })

  it('waits no longer for a wait that was given up', async () => {
    const program = `
      const process = await sandbox.startProcess('sleep 60')
      const controller = new AbortController()
      const waits = [
        process.waitForExit({ timeout: 20 }),
        process.waitForLog('never', { timeout: 20 }),
        process.waitForPort(1, { timeout: 20 }),
        process.waitForExit({ signal: controller.signal }),
        process.waitForLog('never', { signal: controller.signal }),
        process.waitForPort(1, { signal: controller.signal, interval: 100000 }),
      ]
      const reader = process.output()
      const next = reader.next()
      setTimeout(() => { controller.abort(); reader.return() }, 30)
      print((await Promise.allSettled(waits)).map(({ reason }) => reason.code).join())
      print(JSON.stringify(await next))`
    const timeouts = 'PROCESS_WAIT_TIMEOUT,PROCESS_READY_TIMEOUT,PROCESS_READY_TIMEOUT'
    expect(await outputOf(program)).toBe(`${timeouts},ABORT_ERR,ABORT_ERR,ABORT_ERR\n{"done":true}\n`)
  })

  it('ends while a service waits for its next start', async () => {
    const program = `
      const service = await sandbox.startService('echo ready; sleep 0.1; exit 1', {
        healthCheck: { log: 'ready' }, restart: 'on-failure', restartDelay: 60000
      })
      await service.waitForExit()
      print('failed')`
    expect(await outputOf(program)).toBe('failed\n')
  })
})
