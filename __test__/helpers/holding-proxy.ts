/** A proxy on loopback that holds back replies. */
import { connect, createServer, type Socket } from 'node:net'

export interface HoldingProxy {
  port: number
  /** Passes on what was held back, and holds nothing from then on. */
  release(): void
  close(): Promise<void>
}

/** Holds what the server sends on a connection, from the moment when the client has sent this text on it. */
export async function holdingProxy(target: number, text: string): Promise<HoldingProxy> {
  const sockets = new Set<Socket>()
  const held = new Set<Socket>()
  let isReleased = false
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    client.on('data', (data) => {
      if (!isReleased && data.includes(text)) {
        upstream.pause()
        held.add(upstream)
      }
      upstream.write(data)
    })
    upstream.on('data', (data) => client.write(data))
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  return {
    port: address.port,
    release() {
      isReleased = true
      for (const upstream of held) upstream.resume()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
