/**
 * Input of a terminal over a WebSocket, on which a key costs one small message instead of a request.
 *
 * The server answers each message once the terminal has taken it. A WebSocket keeps a program alive, so an idle one is
 * closed, and the next write opens another.
 */

import { engineError } from '../../base/errors.js'
import { clearTimeout, setTimeout } from '../../base/timers.js'
import { connectionError, errorOf, isEnvelope } from './failure.js'
import type { Socket } from './socket.js'

const IDLE_MS = 500
/** The state of a WebSocket that sends. */
const OPEN = 1
/** The process has ended. */
const NORMAL = 1000

interface Write {
  resolve: () => void
  reject: (error: Error) => void
}

/** An open WebSocket, and its messages without an answer, in order. */
interface Channel {
  socket: Socket
  sent: Write[]
  /** Why it has closed; undefined until then. */
  end: Error | undefined
}

export class TerminalInput {
  readonly #open: () => Promise<Socket | undefined>
  #channel: Promise<Channel | undefined> | undefined
  /** Writes that are not finished. */
  #writing = 0
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
      const channel = await this.#openChannel()
      if (channel === undefined) return false
      if (channel.end !== undefined) throw channel.end
      await new Promise<void>((resolve, reject) => {
        // If it throws, nothing was sent, and no answer comes.
        channel.socket.send(data)
        channel.sent.push({ resolve, reject })
      })
      return true
    } finally {
      if (--this.#writing === 0) this.#idle = setTimeout(() => this.#close(), IDLE_MS)
    }
  }

  /**
   * The WebSocket for a message. One that is closing drops what it is given, so it is replaced, unless it is new: then the
   * server refuses the terminal.
   */
  async #openChannel(): Promise<Channel | undefined> {
    const known = this.#channel
    if (known !== undefined) {
      const channel = await known
      if (channel === undefined || channel.socket.readyState === OPEN) return channel
      this.#forget(known)
    }
    // Another write may have connected meanwhile.
    const current = this.#channel ?? this.#connect()
    this.#channel = current
    try {
      return await current
    } catch (error) {
      // The next write tries again.
      this.#forget(current)
      this.#isUnavailable = false
      throw error
    }
  }

  #forget(channel: Promise<Channel | undefined>): void {
    if (this.#channel === channel) this.#channel = undefined
  }

  #connect(): Promise<Channel | undefined> {
    const connecting: Promise<Channel | undefined> = this.#opened(() => this.#forget(connecting))
    return connecting
  }

  /** `closed` is called when the WebSocket has closed. */
  async #opened(closed: () => void): Promise<Channel | undefined> {
    if (this.#isUnavailable) return undefined
    this.#isUnavailable = true
    const socket = await this.#open()
    if (socket === undefined) return undefined
    const channel: Channel = { socket, sent: [], end: undefined }
    return new Promise((resolve) => {
      socket.addEventListener('open', () => {
        this.#isUnavailable = false
        resolve(channel)
      })
      socket.addEventListener('message', ({ data }) => {
        if (!receive(channel.sent, data)) socket.close()
      })
      socket.addEventListener('error', () => {})
      socket.addEventListener('close', ({ code }) => {
        resolve(undefined)
        closed()
        end(channel, code)
      })
    })
  }

  #close(): void {
    const channel = this.#channel
    this.#channel = undefined
    channel?.then(
      (open) => open?.socket.close(),
      () => {},
    )
  }
}

/** Takes an answer. False when it is none. */
function receive(sent: Write[], data: unknown): boolean {
  const failure = failureOf(data)
  if (failure === undefined) return false
  const write = sent.shift()
  if (failure === null) write?.resolve()
  else write?.reject(failure)
  return true
}

/** Messages without an answer may have been written or not, so they are not sent again. */
function end(channel: Channel, code: number): void {
  const error =
    code === NORMAL
      ? engineError('INPUT_CLOSED', 'the process has ended')
      : connectionError(`the WebSocket of the terminal was closed with code ${code}`)
  channel.end = error
  for (const { reject } of channel.sent) reject(error)
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
