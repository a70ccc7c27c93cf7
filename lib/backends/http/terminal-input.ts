/**
 * Input of a terminal over a WebSocket, on which a key costs one small message instead of a request.
 *
 * The server answers each message once the terminal has taken it. A WebSocket keeps a program alive, so an idle one is
 * closed, and the next write opens another.
 */
import { engineError } from '../../base/errors.js'
import { connectionError, errorOf, isEnvelope } from './failure.js'
import type { Socket } from './socket.js'

const IDLE_MS = 500
/** The process has ended. */
const NORMAL = 1000

interface Write {
  resolve: () => void
  reject: (error: Error) => void
}

export class TerminalInput {
  readonly #open: () => Promise<Socket | undefined>
  #socket: Promise<Socket | undefined> | undefined
  /** Writes that are not finished. */
  #writing = 0
  /** Messages without an answer, in order. */
  #sent: Write[] = []
  #idle: ReturnType<typeof setTimeout> | undefined
  #isUnavailable = false

  /** `open` begins to open a WebSocket; undefined where there are none. */
  constructor(open: () => Promise<Socket | undefined>) {
    this.#open = open
  }

  /** Resolves when the terminal took the data. False: it was not sent, since no WebSocket could be opened. */
  async write(data: Uint8Array): Promise<boolean> {
    this.#writing++
    clearTimeout(this.#idle)
    try {
      this.#socket ??= this.#connect().catch((error: unknown) => {
        // The next write tries again.
        this.#socket = undefined
        this.#isUnavailable = false
        throw error
      })
      const socket = await this.#socket
      if (socket === undefined) return false
      await new Promise<void>((resolve, reject) => {
        this.#sent.push({ resolve, reject })
        socket.send(data)
      })
      return true
    } finally {
      if (--this.#writing === 0) this.#idle = setTimeout(() => this.#close(), IDLE_MS)
    }
  }

  async #connect(): Promise<Socket | undefined> {
    if (this.#isUnavailable) return undefined
    this.#isUnavailable = true
    const socket = await this.#open()
    if (socket === undefined) return undefined
    return new Promise((resolve) => {
      socket.addEventListener('open', () => {
        this.#isUnavailable = false
        resolve(socket)
      })
      socket.addEventListener('message', ({ data }) => {
        if (!this.#receive(data)) socket.close()
      })
      socket.addEventListener('error', () => {})
      socket.addEventListener('close', ({ code }) => {
        resolve(undefined)
        this.#end(code)
      })
    })
  }

  /** Takes an answer. False when it is none. */
  #receive(data: unknown): boolean {
    const failure = failureOf(data)
    if (failure === undefined) return false
    const write = this.#sent.shift()
    if (failure === null) write?.resolve()
    else write?.reject(failure)
    return true
  }

  /** Messages without an answer may have been written or not, so they are not sent again. */
  #end(code: number): void {
    this.#socket = undefined
    const sent = this.#sent
    this.#sent = []
    for (const { reject } of sent)
      reject(
        code === NORMAL
          ? engineError('INPUT_CLOSED', 'the process has ended')
          : connectionError(`the WebSocket of the terminal was closed with code ${code}`),
      )
  }

  #close(): void {
    const socket = this.#socket
    this.#socket = undefined
    socket?.then(
      (open) => open?.close(),
      () => {},
    )
  }
}

/** The error in an answer, null without one; undefined for what is no answer. */
function failureOf(data: unknown): Error | null | undefined {
  try {
    const { error } = JSON.parse(String(data))
    return isEnvelope(error) ? errorOf(error) : null
  } catch {
    return undefined
  }
}
