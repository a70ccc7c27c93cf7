/** A relay on loopback whose connections can be cut, or go silent as when a cable is pulled. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface Relay {
  port: number
  /** Closes all connections. */
  cut(): void
  /** Passes nothing on any more, and closes nothing. */
  silence(): void
  close(): Promise<void>
}

export function relayTo(port: number): Promise<Relay> {
  const sockets = new Set<Socket>()
  let isSilent = false
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', (data) => {
        if (!isSilent) to.write(data)
      })
      from.on('error', () => {})
      from.on('close', () => {
        sockets.delete(from)
        if (!isSilent) to.destroy()
      })
    }
  })
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        cut,
        silence() {
          isSilent = true
        },
        close: () =>
          new Promise((closed) => {
            server.close(() => closed())
            cut()
          }),
      }),
    )
  })
}
