/** Ports of this machine that lead to servers in a sandbox. */
import type { AddressInfo, Server, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { net, stream as streams } from '../base/builtin.js'
import { engineError, SandboxError } from '../base/errors.js'
import type { Forwarding } from '../calls/index.js'

const HOST = '127.0.0.1'

/** Opens a connection to a loopback port of the sandbox. It fails, or its stream does, when there is no server. */
export type Connect = (port: number) => Duplex | Promise<Duplex>

/** Where to listen. */
export interface Place {
  /** 0 = any free port. Default: the same port, or a free one if it is taken. */
  local: number | undefined
  /** Whether ports of the sandbox are not ports of this machine. Otherwise, the same port is taken by definition. */
  isApart: boolean
}

/** The forwards of one owner, like a session, which end with it. */
export class Forwards {
  readonly #connect: Connect
  readonly #all = new Set<Forward>()
  #isClosed = false

  constructor(connect: Connect) {
    this.#connect = connect
  }

  /** Rejects with SESSION_DESTROYED if the owner ends meanwhile. */
  async forward(port: number, { local, isApart }: Place): Promise<Forwarding> {
    const same = isApart ? [port, 0] : [0]
    const forward = new Forward(this.#connect, port, () => this.#all.delete(forward))
    await forward.listen(local === undefined ? same : [local])
    if (this.#isClosed) {
      await forward.close()
      throw engineError('SESSION_DESTROYED', 'the session or the sandbox has ended')
    }
    this.#all.add(forward)
    return forward
  }

  close(): void {
    this.#isClosed = true
    for (const forward of this.#all) void forward.close()
  }
}

class Forward implements Forwarding {
  readonly #connect: Connect
  readonly #inner: number
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #onClose: () => void
  #port = 0
  #closed: Promise<void> | undefined

  constructor(connect: Connect, inner: number, onClose: () => void) {
    this.#connect = connect
    this.#inner = inner
    this.#onClose = onClose
    this.#server = net().createServer({ allowHalfOpen: true }, (socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
      void this.#join(socket)
    })
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `http://${HOST}:${this.port}`
  }

  /** Listens on the first port that is free. Rejects with the error of the last. */
  async listen([port = 0, ...others]: number[]): Promise<void> {
    const error = await new Promise<Error | undefined>((resolve) => {
      this.#server.once('error', resolve)
      this.#server.listen(port, HOST, () => {
        this.#server.off('error', resolve)
        resolve(undefined)
      })
    })
    // A connection that cannot be accepted is the client's problem alone.
    if (error === undefined) {
      this.#server.on('error', () => {})
      this.#port = (this.#server.address() as AddressInfo).port
    } else if (others.length === 0) throw refusal(error, port)
    else await this.listen(others)
  }

  close(): Promise<void> {
    this.#onClose()
    this.#closed ??= new Promise((resolve) => {
      this.#server.close(() => resolve())
      for (const socket of this.#sockets) socket.destroy()
    })
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #join(socket: Socket): Promise<void> {
    // It may break before there is another end.
    socket.on('error', () => {})
    try {
      const opened = this.#connect(this.#inner)
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

function refusal(error: Error, port: number): Error {
  const { code } = error as NodeJS.ErrnoException
  const text = (why: string) =>
    `port ${port} of this machine ${why}: leave \`local\` out, or name another port`
  if (code === 'EADDRINUSE') return new SandboxError('PORT_IN_USE', text('is taken'), { cause: error })
  if (code === 'EACCES')
    return new SandboxError('PERMISSION_DENIED', text('needs more rights'), { cause: error })
  return error
}
