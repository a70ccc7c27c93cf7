/** Answers of a host or a proxy that are none: they fail their calls, and not the program. */
import { connect, createServer, type Socket } from 'node:net'
import { Sandbox } from 'nacre'
import { SandboxFleet } from 'nacre/fleet'
import { serve } from 'nacre/server'
import { expect, it } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'

const token = 'a-token-of-the-tests'

/** A relay that makes JSON unreadable in what comes over WebSockets. */
async function garblingRelay(port: number): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    let isUpgraded = false
    client.on('data', (data) => upstream.write(data))
    upstream.on('data', (data: Buffer) => {
      const garbled = isUpgraded ? Buffer.from(data.map((byte) => (byte === 0x7b ? 0x78 : byte))) : data
      isUpgraded ||= data.toString('latin1').startsWith('HTTP/1.1 101')
      client.write(garbled)
    })
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => {})
      one.on('close', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' ? (address?.port ?? 0) : 0,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

it('a message of a terminal that is no JSON fails the write', async () => {
  await using sandbox = new Sandbox()
  const serving = await serve(sandbox, { port: 0, token, handleSignals: false })
  const relay = await garblingRelay(Number(new URL(serving.url).port))
  const fleet = new SandboxFleet({ hosts: [`http://127.0.0.1:${relay.port}`], token, reconnectTimeout: 1000 })
  try {
    const { client } = await fleet.create()
    const process = await client.startProcess('cat', { pty: { cols: 80, rows: 24 } })
    expect(await rejectionOf(process.write('x\n'))).toMatchObject({ code: 'CONNECTION_FAILED' })
    expect((await client.exec('echo ok')).stdout).toBe('ok\n')
  } finally {
    await fleet.close()
    await relay.close()
    await serving.close()
  }
})
