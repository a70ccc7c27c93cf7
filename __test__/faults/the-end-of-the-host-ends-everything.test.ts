/** A host that dies, in whatever way, leaves nothing behind. */
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { modes } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'

/** Five sessions with jobs of every kind and a command that runs in each; prints "ready" once all of it runs. */
const busy = `
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const start = async () => {
    for (let index = 0; index < 5; index++) {
      const session = await sandbox.createSession()
      await session.exec('sleep 600 & setsid sleep 600 & (nohup sleep 600 >/dev/null 2>&1 &); env -i setsid sleep 600 &')
      await new Promise((runs) => {
        const command = 'trap "" TERM HUP; sleep 600 & echo up; while :; do sleep 600; done'
        session.exec(command, { onOutput: runs }).catch(() => {})
      })
    }
    print('ready')
  }
`

const ends: Array<{ name: string; program: string; signal?: NodeJS.Signals; end: number | string }> = [
  { name: 'kill -9', program: 'start()', signal: 'SIGKILL', end: 'SIGKILL' },
  { name: 'SIGTERM', program: 'start()', signal: 'SIGTERM', end: 'SIGTERM' },
  { name: 'SIGINT', program: 'start()', signal: 'SIGINT', end: 'SIGINT' },
  { name: 'process.exit', program: 'start().then(() => process.exit(3))', end: 3 },
  {
    name: 'an uncaught exception',
    program: 'start().then(() => setTimeout(() => { throw new Error("boom") }))',
    end: 1,
  },
  { name: 'an unhandled rejection', program: 'start().then(() => { throw new Error("boom") })', end: 1 },
  { name: 'process.abort', program: 'start().then(() => process.abort())', end: 'SIGABRT' },
]

for (const mode of modes) {
  describe(`the end of the host, ${mode.name}, by`, () => {
    for (const { name, program, signal, end } of ends) {
      it(name, async () => {
        const host = startHost(`${busy} ${program}`, [], mode.env)
        await host.printed('ready')
        if (signal !== undefined) process.kill(host.pid, signal)
        const seen = await host.ended()
        await expectGone(host.tag)
        // Bun turns an abort into another signal on some versions.
        if (end === 'SIGABRT') expect(seen).toMatch(/^SIG/)
        else expect(seen).toBe(end)
      })
    }
  })
}

describe('the end of a host', () => {
  it('in the middle of starting sessions', async () => {
    const program = `
      const sandbox = new Sandbox({ cwd: '/tmp' })
      for (let index = 0; index < 20; index++) sandbox.createSession().then((session) => session.exec('sleep 600')).catch(() => {})
      setTimeout(() => { print('ready'); process.kill(process.pid, 'SIGKILL') }, 15)
    `
    const host = startHost(program)
    expect(await host.ended()).toBe('SIGKILL')
    await expectGone(host.tag)
  })

  it('that ends a worker thread mid-run, twenty times', async () => {
    const program = `
      const { Worker } = require('worker_threads')
      const source = "const { Sandbox } = require('nacre'); const { parentPort } = require('worker_threads'); " +
        "const sandbox = new Sandbox({ cwd: '/tmp' }); sandbox.exec('sleep 600 & echo x').then(() => { " +
        "for (let n = 0; n < 3; n++) sandbox.exec('sleep 600').catch(() => {}); parentPort.postMessage('running') })"
      const run = async () => {
        for (let round = 0; round < 20; round++) {
          const worker = new Worker(source, { eval: true })
          await new Promise((resolve, reject) => { worker.once('message', resolve); worker.once('error', reject) })
          await worker.terminate()
          print('ended ' + round + '.')
        }
        setInterval(() => {}, 1000)
      }
      run()
    `
    const host = startHost(program)
    // Each has the time of a wait.
    for (let round = 0; round < 20; round++) await host.printed(`ended ${round}.`)
    // The workers have ended and their host lives: only the host itself may carry the tag.
    const left = () => proc.tagged(host.tag).filter(({ pid }) => pid !== host.pid)
    const deadline = performance.now() + 10_000
    while (left().length > 0 && performance.now() < deadline)
      await new Promise((resolve) => setTimeout(resolve, 10))
    const lines = left().map(proc.show)
    proc.kill(host.pid)
    await host.ended()
    expect(lines).toEqual([])
    await expectGone(host.tag)
  })
})
