/** The connection to a server over the pipes of a program. */
import type { ClientHttp2Session } from 'node:http2'
import type { Duplex } from 'node:stream'
import { http2 } from '../base/builtin.js'
import { SandboxError } from '../base/errors.js'
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
  isPaused = false
  /** The end of the last call of `setPaused`. */
  #turn: Promise<void> = Promise.resolve()

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
    ping(this.#session, undefined, undefined, () => this.isPaused)
    program.hold(false)
  }

  readonly fetch = async (url: string, init: RequestInit = {}): Promise<Response> => {
    if (this.isPaused)
      throw new SandboxError('CONNECTION_FAILED', 'the virtual machine is paused: call vm.resume() first')
    return send(
      this.#session,
      url,
      init,
      (stream) => stream.once('close', this.#hold()),
      () => this.#explain(),
    ).catch(async (error) => {
      if (this.#session.destroyed) await this.lost
      throw error
    })
  }

  /** Only what is pending keeps this process alive. Returns what ends that. */
  #hold(): () => void {
    if (this.#open++ === 0) this.#program.hold(true)
    return () => {
      if (--this.#open === 0) this.#program.hold(false)
    }
  }

  /** Stops the program's virtual machine, or lets it go on. Resolves when that is done, or when it has ended. */
  setPaused(isPaused: boolean): Promise<void> {
    this.#turn = this.#turn.then(async () => {
      const { control } = this.#program
      if (control === undefined || this.isPaused === isPaused) return
      const release = this.#hold()
      // Calls are refused before it stops, and until it goes on.
      this.isPaused = true
      const done = new Promise<void>((resolve) => void control.once('data', () => resolve()))
      control.write(isPaused ? 'p' : 'r')
      await Promise.race([done, this.lost])
      this.isPaused = isPaused
      release()
    })
    return this.#turn
  }

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
