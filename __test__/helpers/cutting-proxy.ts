/** A proxy on loopback that cuts its connections. */
import { connect, createServer, type Socket } from 'node:net'

export interface CuttingProxy {
  url: string
  /** How many connections it has cut. */
  cuts(): number
  close(): Promise<void>
}

/** Cuts each connection after this many bytes from the server, at most `most` times. */
export function cuttingProxy(port: number, bytes: number, most: number): Promise<CuttingProxy> {
  let cut = 0
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    let seen = 0
    const end = () => {
      client.destroy()
      upstream.destroy()
      sockets.delete(client)
      sockets.delete(upstream)
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end)
      socket.on('close', end)
    }
    client.on('data', (data) => upstream.write(data))
    upstream.on('data', (data: Buffer) => {
      seen += data.length
      if (seen <= bytes || cut >= most) {
        client.write(data)
        return
      }
      cut++
      // Usually in the middle of an event.
      client.end(data.subarray(0, Math.max(1, data.length - 7)), end)
    })
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      resolve({
        url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
        cuts: () => cut,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed())
            for (const socket of sockets) socket.destroy()
          }),
      })
    })
  })
}
