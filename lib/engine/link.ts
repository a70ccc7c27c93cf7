/** The connection to a server over the pipes of a program. */
import type { ClientHttp2Session } from 'node:http2'
import type { Duplex } from 'node:stream'
import { http2 } from '../base/builtin.js'
import { duplexOf, MOST_MEMORY_MB, ping, STREAM_WINDOW, widen } from '../base/http2-pipes.js'
import type { Program } from './program.js'
import { send } from './requests.js'

const BROKEN = 'the connection broke'

export class Link {
  readonly #program: Program
  readonly #session: ClientHttp2Session
  /** Resolves when the program has ended. What was pending fails after that. */
  readonly lost: Promise<void>
  #open = 0

  constructor(program: Program) {
    this.#program = program
    const pipes = duplexOf(program.stdout, program.stdin)
    this.#session = http2().connect('http://localhost', {
      createConnection: () => pipes,
      maxSessionMemory: MOST_MEMORY_MB,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    })
    // It is followed by the close.
    this.#session.on('error', () => {})
    this.#session.once('connect', () => widen(this.#session))
    // A connection that has broken ends the program, and the other way round.
    this.#session.once('close', () => void this.close())
    const destroy = () => this.#session.destroy(new Error(BROKEN))
    program.stdout.once('close', destroy)
    void program.exited.then(destroy)
    this.lost = program.ended
    ping(this.#session)
    program.hold(false)
  }

  readonly fetch = (url: string, init: RequestInit = {}): Promise<Response> =>
    send(
      this.#session,
      url,
      init,
      (stream) => {
        // Only what is pending keeps this process alive.
        if (this.#open++ === 0) this.#program.hold(true)
        stream.once('close', () => {
          if (--this.#open === 0) this.#program.hold(false)
        })
      },
      () => this.#explain(),
    ).catch(async (error) => {
      if (this.#session.destroyed) await this.lost
      throw error
    })

  /** Opens a connection to a loopback port of the server's machine. It fails if there is no listener. */
  connect(port: number): Duplex {
    const stream = this.#session.request({ ':method': 'CONNECT', ':authority': `localhost:${port}` })
    stream.once('response', ({ ':status': status }) => {
      if (status !== 200) stream.destroy(new Error(`nothing listens on port ${port}`))
    })
    return stream
  }

  /** Ends the connection, and with it the server and the program. Resolves when the program has ended. */
  async close(): Promise<void> {
    this.#session.close()
    await this.#program.close()
  }

  async #explain(): Promise<unknown> {
    if (this.#session.destroyed || this.#session.closed) await this.lost
    return new TypeError(BROKEN)
  }
}
