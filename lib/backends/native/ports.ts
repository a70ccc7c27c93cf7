/** Where the programs of a sandbox listen, and connections to them. */
import type { Socket } from 'node:net'
import { net } from '../../base/builtin.js'
import type { OpenPort } from '../../calls/index.js'
import type { Engine } from './engine.js'

/** Of one session, or of all. */
export async function listPorts(engine: Engine, sessionId: string | null): Promise<OpenPort[]> {
  const ports = await engine.call((native, id) => native.ports(id, sessionId))
  return ports.map(({ address, processId = null, ...port }) => ({
    ...{ ...port, address, family: address.includes(':') ? 'IPv6' : 'IPv4', processId },
  }))
}

/** Connects to a port of a session, or of any. Rejects with PORT_CLOSED. */
export async function connect(engine: Engine, sessionId: string | undefined, port: number): Promise<Socket> {
  return streamOf(await engine.call((native, id) => native.connect(id, sessionId, port)))
}

/** A stream on a connected socket, which it closes. */
export function streamOf(fd: number): Socket {
  const { Socket } = net()
  if (process.versions.bun === undefined)
    return new Socket({ fd, readable: true, writable: true, allowHalfOpen: true })
  const socket = new Socket({ allowHalfOpen: true })
  // As its own modules take over a socket.
  socket.connect({ fd, fdIsRawSocket: true } as never)
  return socket
}
