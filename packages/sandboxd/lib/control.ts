/**
 * The calls on a running program: its input, signals for it, and the size of its terminal.
 */
import { isCode } from 'nacre/internal'
import type { ProcessTable } from './process-table.js'
import { sizeOf } from './start.js'
import { Refused } from './status.js'

export interface WriteStdinRequest {
  process_id: number
  payload?: 'input' | 'eof'
  input?: Uint8Array
}

export interface SendSignalRequest {
  process_id: number
  signal: number
}

export interface ResizeRequest {
  process_id: number
  cols: number
  rows: number
}

type Nothing = Record<string, never>

/** Input that waits for programs, of all calls together. */
const MAX_PENDING_BYTES = 64 * 1024 * 1024

const CTRL_D = Uint8Array.of(4)
/** After these, a terminal has no part of a line: newline, carriage return, and Ctrl with C, D, U, Z or a backslash. */
const LINE_ENDS = new Set([10, 13, 3, 4, 21, 26, 28])

const SIGINT = 2
const SIGKILL = 9
const SIGTERM = 15

export class Control {
  readonly #table: ProcessTable
  /** Programs in terminals whose last input was no end of a line. */
  readonly #inLine = new WeakSet<object>()
  #pendingBytes = 0

  constructor(table: ProcessTable) {
    this.#table = table
  }

  /** Resolves when the pipe or the terminal took the input, so the caller waits for a program that does not read. */
  async writeStdin({ process_id, payload, input }: WriteStdinRequest): Promise<Nothing> {
    const process = this.#table.get(process_id)
    if (payload === 'eof') {
      // In the middle of a line, the first Ctrl-D only hands the line over.
      if (this.#inLine.delete(process)) await process.write(CTRL_D)
      await process.closeInput()
      return {}
    }
    if (payload !== 'input' || input === undefined)
      throw new Refused('INVALID_ARGUMENT', 'payload must be input or eof')
    if (input.length === 0) return {}
    if (this.#pendingBytes + input.length > MAX_PENDING_BYTES)
      throw new Refused(
        'RESOURCE_EXHAUSTED',
        `more than ${MAX_PENDING_BYTES} bytes wait to be read by programs: await each WriteStdin before the next`,
      )
    this.#pendingBytes += input.length
    if (process.hasTerminal) {
      if (LINE_ENDS.has(input[input.length - 1] ?? 0)) this.#inLine.delete(process)
      else this.#inLine.add(process)
    }
    try {
      await process.write(input)
    } catch (error) {
      // A program that ends meanwhile has closed its input, too.
      if (isCode(error, 'INPUT_CLOSED')) this.#table.get(process_id)
      throw error
    } finally {
      this.#pendingBytes -= input.length
    }
    return {}
  }

  /** Sends the signal to the process group. */
  async sendSignal({ process_id, signal }: SendSignalRequest): Promise<Nothing> {
    const process = this.#table.get(process_id)
    if (signal !== SIGINT && signal !== SIGKILL && signal !== SIGTERM)
      throw new Refused(
        'INVALID_ARGUMENT',
        `signal must be SIGNAL_SIGINT, SIGNAL_SIGKILL or SIGNAL_SIGTERM, not ${signal}`,
      )
    if (!process.signal(signal)) this.#table.get(process_id)
    return {}
  }

  async resize({ process_id, ...size }: ResizeRequest): Promise<Nothing> {
    const process = this.#table.get(process_id)
    if (!process.hasTerminal)
      throw new Refused('FAILED_PRECONDITION', `process ${process_id} has no terminal: start it with pty`)
    if (!(await process.resize(sizeOf(size, undefined)))) this.#table.get(process_id)
    return {}
  }
}
