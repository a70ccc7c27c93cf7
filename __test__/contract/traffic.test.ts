/** `usage.sentBytes` and `usage.receivedBytes`: what the proxy of a list of hosts has carried for a command. */
import { describe, expect } from 'vitest'
import { startOuterServer } from '../helpers/outer-server.js'
import { itHolds } from './helper.js'

const DOWN = 3_000_000
const target = await startOuterServer((request, response) => {
  request.resume()
  request.on('end', () => response.end(request.method === 'POST' ? 'ok' : Buffer.alloc(DOWN)))
})

describe('the traffic of a command', () => {
  itHolds('is what its programs send and receive', async ({ sandbox }) => {
    const session = await sandbox.createSession({ isolation: { network: { allow: [target] } } })
    const get = `curl -sS -o /dev/null http://${target}/`
    const down = (await session.exec(`${get}; ${get}`)).usage
    expect(down?.receivedBytes).toBeGreaterThan(2 * DOWN)
    expect(down?.receivedBytes).toBeLessThan(2 * DOWN * 1.05)
    expect(down?.sentBytes).toBeGreaterThan(100)
    expect(down?.sentBytes).toBeLessThan(2000)
    const post = `head -c 2000000 /dev/zero | curl -sS --data-binary @- http://${target}/`
    const up = (await session.exec(post)).usage
    expect(up?.sentBytes).toBeGreaterThan(2_000_000)
    expect(up?.sentBytes).toBeLessThan(2_100_000)
    expect(up?.receivedBytes).toBeLessThan(2000)
    const none = (await session.exec('true')).usage
    expect([none?.sentBytes, none?.receivedBytes]).toEqual([0, 0])
    // A program of an earlier command counts for the one that runs.
    await session.exec(`(until [ -e go ]; do sleep 0.01; done; ${get}; touch got) >/dev/null 2>&1 &`)
    const waits = await session.exec('touch go; until [ -e got ]; do sleep 0.01; done')
    expect(waits.usage?.receivedBytes).toBeGreaterThan(DOWN)
  })

  itHolds('is absent without a proxy', async ({ sandbox }) => {
    const { usage } = await sandbox.exec('true')
    expect(usage).toEqual({
      cpuMs: expect.any(Number),
      readBytes: expect.any(Number),
      writtenBytes: expect.any(Number),
    })
  })

  itHolds('and the rest of the usage is in the event of the end', async ({ sandbox }) => {
    const session = await sandbox.createSession({ isolation: { network: { allow: [target] } } })
    const feed = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
    const { usage } = await session.exec(`curl -sS -o /dev/null http://${target}/`)
    for (let step = await feed.next(); !step.done; step = await feed.next())
      if (step.value.type === 'commandEnded') {
        expect(step.value.usage).toEqual(usage)
        break
      }
    expect(usage?.receivedBytes).toBeGreaterThan(DOWN)
    await feed.return?.()
  })
})
