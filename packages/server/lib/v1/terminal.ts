/**
 * The terminal of a process over a WebSocket: binary messages are bytes both ways, text messages are JSON.
 *
 * With `acknowledge`, each binary message of the client is answered once the terminal has taken it, in the same order.
 *
 * Buffers are bounded in both directions. Output is read from the log of the process when the socket has taken the earlier
 * output. While the terminal takes no input, a little more is read from the socket, so that a client which types or waits
 * is still answered its pings and its close.
 */

import type { ProcessExit } from 'nacre'
import { aborts, clock, isCode, OptionError, plans, report } from 'nacre/internal'
import { type backends, processIo, tables } from 'nacre/internal/server'
import type { WebSocket } from 'ws'
import type { ServerContext } from '../context.js'
import { anyText, queryFlag, queryNumber } from '../parameters.js'
import { type Given, readJson, shape } from '../request-json.js'
import { type Define, errorEvent } from '../route.js'
import { SocketSession } from '../socket-session.js'

/** Bytes that the socket may hold before the next piece of the log is read; a piece has at most 256 KiB. */
const MOST_BUFFERED_BYTES = 256 * 1024

/** Bytes of input that wait for the terminal while the socket is read. A message has at most 1 MiB. */
const MOST_WAITING_BYTES = 1024 * 1024
/** What a message takes besides its bytes: there can be many empty ones. */
const MESSAGE_BYTES = 256

/** Codes of RFC 6455. */
const NORMAL = 1000
const GOING_AWAY = 1001
const BAD_MESSAGE = 1008
const INTERNAL_ERROR = 1011

/** The reason of a close has at most 123 bytes. */
const MOST_REASON_CHARACTERS = 120

const message = shape({ resize: tables.terminal }, ['resize'])

const terminalQuery = shape({
  cursor: queryNumber,
  output: { ...queryFlag, description: 'Whether to send output. Default: true.' },
  acknowledge: { ...queryFlag, description: 'Whether to answer each input message.' },
  hold: {
    ...anyText,
    description: 'The hold of the caller on the process: a page can set no headers for a WebSocket.',
  },
})
type TerminalQuery = Given<typeof terminalQuery>

export function addTerminal(define: Define, server: ServerContext): void {
  define({
    method: 'GET',
    path: '/v1/processes/{processId}/terminal',
    summary: 'Opens a WebSocket to the terminal of a process.',
    query: terminalQuery,
    reply: 'socket',
    errors: ['PROCESS_NOT_FOUND', 'UPGRADE_REQUIRED'],
    async handle({ params: { processId }, query, signal, hold }) {
      const process = await server.processes.find(processId)
      if (!process.hasTerminal)
        throw new OptionError('INVALID_OPTION', `process '${process.info.id}' was not started with pty`)
      return new SocketSession((socket, closed) => {
        const stop = AbortSignal.any([closed, signal])
        return new Terminal(process, socket, server, { hold, ...query }).run(stop)
      })
    },
  })
}

class Terminal {
  readonly #process: backends.ProcessBackend
  readonly #socket: WebSocket
  readonly #server: ServerContext
  readonly #query: TerminalQuery
  /** Input that the terminal has not taken; bounded, since the socket is paused above the bound. */
  #input: Promise<void> = Promise.resolve()
  #waiting = 0

  constructor(
    process: backends.ProcessBackend,
    socket: WebSocket,
    server: ServerContext,
    query: TerminalQuery,
  ) {
    this.#process = process
    this.#socket = socket
    this.#server = server
    this.#query = query
  }

  /** Resolves when the process has ended or `stop` is aborted; the socket is closed then. */
  async run(stop: AbortSignal): Promise<void> {
    this.#socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) this.#write(data)
      else void this.#command(data.toString())
    })
    const heartbeat = clock.setInterval(() => {
      if (this.#socket.bufferedAmount === 0) this.#socket.ping()
    }, this.#server.heartbeat)
    heartbeat.unref()
    // Not after the output: a client that does not read would hold up the end of the server.
    const { closing } = this.#server
    const release = aborts.onAbort(closing, () => this.#close(GOING_AWAY, 'the server ends'))
    try {
      const exit =
        this.#query.output === false
          ? await this.#process.wait({ timeout: 0, signal: stop })
          : await this.#print(stop)
      // Every message of input that has arrived gets its answer.
      await this.#input
      this.#close(NORMAL, JSON.stringify(exit))
    } catch (error) {
      if (!stop.aborted) this.#fail(error)
    } finally {
      release()
      clock.clearInterval(heartbeat)
    }
  }

  /** Sends the output. Resolves with the end of the process. */
  async #print(signal: AbortSignal): Promise<ProcessExit | undefined> {
    const { cursor } = this.#query
    const plan = plans.planLogStream({ cursor, encoding: 'buffer', signal }, 'output')
    for await (const event of this.#process.output(plan)) {
      if (event.missing !== undefined) await this.#send(JSON.stringify({ missing: event.missing }))
      if (event.type === 'exit') return exitOf(event)
      await this.#send(event.data)
    }
    return undefined
  }

  /** Resolves when the socket has room for more. */
  async #send(data: string | Uint8Array): Promise<void> {
    const written = new Promise<void>((resolve) => {
      this.#socket.send(data, () => resolve())
    })
    if (this.#socket.bufferedAmount > MOST_BUFFERED_BYTES) await written
  }

  #write(data: Uint8Array): void {
    const bytes = data.length + MESSAGE_BYTES
    this.#waiting += bytes
    if (this.#waiting > MOST_WAITING_BYTES) this.#socket.pause()
    this.#input = this.#input
      .then(() => processIo.write(this.#process, data, this.#query.hold))
      .then(
        () => this.#acknowledge({ written: data.length }),
        (error) => this.#refuse(error),
      )
      .finally(() => {
        this.#waiting -= bytes
        if (this.#waiting <= MOST_WAITING_BYTES) this.#socket.resume()
      })
  }

  async #acknowledge(answer: object): Promise<void> {
    if (this.#query.acknowledge) await this.#send(JSON.stringify(answer))
  }

  /** Answers input that was not written. */
  async #refuse(error: unknown): Promise<void> {
    if (this.#query.acknowledge || isCode(error, 'HELD')) await this.#report('input', error)
    else if (error instanceof OptionError) this.#close(BAD_MESSAGE, error.message)
    // The process has ended, or its input: then there is nothing to write to, and the end follows.
    else if (!isCode(error, 'INPUT_CLOSED', 'PROCESS_NOT_FOUND')) this.#fail(error)
  }

  /** Reports what was refused. A refused resize is no answer to input. */
  async #report(refused: 'input' | 'resize', error: unknown): Promise<void> {
    await this.#send(JSON.stringify({ ...errorEvent(this.#server, error, 'v1'), refused }))
  }

  async #command(text: string): Promise<void> {
    try {
      const { resize: size } = readJson(message, parse(text), 'the message')
      await processIo.resize(this.#process, size.cols, size.rows, this.#query.hold)
    } catch (error) {
      if (isCode(error, 'HELD')) await this.#report('resize', error)
      else if (!(error instanceof OptionError)) this.#fail(error)
      else this.#close(BAD_MESSAGE, `send {"resize":{"cols":80,"rows":24}}; ${error.message}`)
    }
  }

  #fail(error: unknown): void {
    report(this.#server.logger, 'error', `a terminal failed: ${error}`)
    this.#close(INTERNAL_ERROR, 'an internal error')
  }

  #close(code: number, reason: string): void {
    // Paused, it would not read the client's answer.
    this.#socket.resume()
    this.#socket.close(code, reason.slice(0, MOST_REASON_CHARACTERS))
  }
}

function exitOf({ exitCode, signal, reason }: ProcessExit): ProcessExit {
  return { exitCode, signal, reason }
}

/** Undefined when it is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
