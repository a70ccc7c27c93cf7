/** Ports of this machine that lead to servers in a sandbox. */
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { net, stream as streams } from '../base/builtin.js'
import { engineError } from '../base/errors.js'
import type { Forwarding } from '../calls/index.js'
import { portNumber } from '../schema/http.js'
import { count } from '../schema/numbers.js'
import { readArgument } from '../schema/read.js'

const HOST = '127.0.0.1'
const localPort = count(0, 65_535)

/** Opens a connection to a loopback port of the sandbox. It fails, or its stream does, when there is no server. */
export type Connect = (port: number) => Duplex | Promise<Duplex>

export class Forwards {
  readonly #connect: Connect
  readonly #isHere: boolean
  readonly #all = new Set<Forwarding>()
  #isClosed = false

  /** `isHere`: servers in the sandbox have their ports on this machine. */
  constructor(connect: Connect, isHere = false) {
    this.#connect = connect
    this.#isHere = isHere
  }

  /** See `Session.listen`. */
  async forward(port: number, local?: number): Promise<Forwarding> {
    readArgument(portNumber.read, port, 'port')
    const wanted = local === undefined ? [port, 0] : [readArgument(localPort.read, local, 'local')]
    if (this.#isHere && wanted[0] === port) return { ...addressOf(port), close() {} }
    const sockets = new Set<Socket>()
    const server = net().createServer({ allowHalfOpen: true }, (socket) => {
      sockets.add(socket)
      socket.once('close', () => sockets.delete(socket))
      void this.#join(socket, port)
    })
    const address = addressOf(await listen(server, wanted))
    if (this.#isClosed) {
      server.close()
      throw engineError('SESSION_DESTROYED', 'the session has ended')
    }
    const forwarding = {
      ...address,
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
    this.#isClosed = true
    for (const forwarding of this.#all) forwarding.close()
  }

  async #join(socket: Socket, port: number): Promise<void> {
    // It may break before there is another end.
    socket.on('error', () => {})
    try {
      const opened = this.#connect(port)
      // Without a turn of the event loop, in which it could fail unseen.
      const inner = opened instanceof Promise ? await opened : opened
      inner.on('error', () => {})
      if (socket.destroyed) inner.destroy()
      // Both ends close together, also after an error.
      else streams().pipeline(socket, inner, socket, () => socket.destroy())
    } catch {
      // There is no server, or the connection to the sandbox has ended.
      socket.destroy()
    }
  }
}

/** The forwards of each session. */
export class SessionForwards {
  readonly #connect: (sessionId: string, port: number) => Promise<Duplex>
  readonly #all = new Map<string, Forwards>()

  constructor(connect: (sessionId: string, port: number) => Promise<Duplex>) {
    this.#connect = connect
  }

  listen(sessionId: string, port: number, local: number): Promise<Forwarding> {
    const own = this.#all.get(sessionId) ?? new Forwards((inner) => this.#connect(sessionId, inner))
    this.#all.set(sessionId, own)
    return own.forward(port, local)
  }

  /** Closes those of a session that ends. */
  end(sessionId: string): void {
    this.#all.get(sessionId)?.close()
    this.#all.delete(sessionId)
  }

  endAll(): void {
    for (const id of this.#all.keys()) this.end(id)
  }
}

function addressOf(port: number): Omit<Forwarding, 'close'> {
  return { url: `http://${HOST}:${port}`, port }
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
  if (error === undefined) {
    // A connection that cannot be accepted is the client's problem alone.
    server.on('error', () => {})
    return (server.address() as AddressInfo).port
  }
  if (others.length === 0) throw error
  return listen(server, others)
}
