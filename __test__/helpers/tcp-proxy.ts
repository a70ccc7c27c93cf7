/** Proxies on loopback that treat TCP connections badly. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** Forwards connections to a port of loopback. `linked` gets the two sockets of each, before anything arrives. */
async function createProxy(target: number, linked: (client: Socket, upstream: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
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
    linked(client, upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    sockets,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** `cut` stops forwarding like a network that drops every packet, without closing a connection; `heal` goes on. */
export async function stoppingProxy(target: number) {
  let isCut = false
  const proxy = await createProxy(target, (client, upstream) => {
    client.on('data', (data) => upstream.write(data))
    upstream.on('data', (data) => client.write(data))
    if (isCut) for (const socket of [client, upstream]) socket.pause()
  })
  return {
    ...proxy,
    cut() {
      isCut = true
      for (const socket of proxy.sockets) socket.pause()
    },
    heal() {
      isCut = false
      for (const socket of proxy.sockets) socket.resume()
    },
  }
}

/** Holds what the server sends on a connection, from the moment when the client has sent this text on it. */
export async function holdingProxy(target: number, text: string) {
  let isReleased = false
  const proxy = await createProxy(target, (client, upstream) => {
    client.on('data', (data) => {
      if (!isReleased && data.includes(text)) upstream.pause()
      upstream.write(data)
    })
    upstream.on('data', (data) => client.write(data))
  })
  return {
    ...proxy,
    /** Passes on what was held back, and holds nothing from then on. */
    release() {
      isReleased = true
      for (const socket of proxy.sockets) socket.resume()
    },
  }
}

/** Cuts each connection after this many bytes from the server, at most `most` times. */
export async function cuttingProxy(target: number, bytes: number, most: number) {
  let cut = 0
  const proxy = await createProxy(target, (client, upstream) => {
    let seen = 0
    client.on('data', (data) => upstream.write(data))
    upstream.on('data', (data: Buffer) => {
      seen += data.length
      if (seen <= bytes || cut >= most) {
        client.write(data)
        return
      }
      cut++
      // Usually in the middle of an event.
      client.end(data.subarray(0, Math.max(1, data.length - 7)), () => client.destroy())
    })
  })
  return { ...proxy, cuts: () => cut }
}
