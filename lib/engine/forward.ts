/** Ports of this machine that lead to servers in a sandbox. */
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { net, stream as streams } from '../base/builtin.js'
import type { Forwarding } from '../calls/engine.js'
import { portNumber } from '../schema/http.js'
import { count } from '../schema/numbers.js'

const HOST = '127.0.0.1'
const localPort = count(0, 65_535)

/** Opens a connection to a loopback port of the sandbox. Its stream fails when there is no server. */
export type OpenPort = (port: number) => Duplex

export class Forwards {
  readonly #open: OpenPort
  readonly #isHere: boolean
  readonly #all = new Set<Forwarding>()

  /** `isHere`: servers in the sandbox have their ports on this machine. */
  constructor(open: OpenPort, isHere = false) {
    this.#open = open
    this.#isHere = isHere
  }

  /** See `EngineSandbox.forward`. */
  async forward(port: number, local?: number): Promise<Forwarding> {
    portNumber.read(port, 'port')
    const wanted = local === undefined ? [port, 0] : [localPort.read(local, 'local')]
    if (this.#isHere && wanted[0] === port) return { url: `http://${HOST}:${port}`, close() {} }
    const sockets = new Set<Socket>()
    const server = net().createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      try {
        // Both ends close together, also after an error.
        streams().pipeline(socket, this.#open(port), socket, () => socket.destroy())
      } catch {
        // The connection to the sandbox ends.
        socket.destroy()
      }
    })
    const url = `http://${HOST}:${await listen(server, wanted)}`
    const forwarding = {
      url,
      close: () => {
        this.#all.delete(forwarding)
        server.close()
        for (const socket of sockets) socket.destroy()
      },
    }
    this.#all.add(forwarding)
    return forwarding
  }

  close(): void {
    for (const forwarding of this.#all) forwarding.close()
  }
}

/** Listens on the first port that is free. Rejects with the error of the last. */
async function listen(server: Server, [port = 0, ...others]: number[]): Promise<number> {
  const error = await new Promise<Error | undefined>((resolve) => {
    server.once('error', resolve)
    server.listen(port, HOST, () => {
      server.off('error', resolve)
      resolve(undefined)
    })
  })
  if (error === undefined) return (server.address() as AddressInfo).port
  if (others.length === 0) throw error
  return listen(server, others)
}
