/** Python: one process of python/kernel.py, which starts with the first code. */

import { readFileSync } from 'node:fs'
import type { LogEvent, Process } from 'nacre'
import { clock } from 'nacre/internal'
import type { Hosted } from '../hosted.js'
import { innerPid } from '../inner-pid.js'
import { type Code, type Kernel, line } from './kernel.js'

/** Given as an argument: the isolation may hide the file. */
const PROGRAM = readFileSync(new URL('../../python/kernel.py', import.meta.url), 'utf8')
const LOG_BYTES = 256 * 1024 * 1024
const MAX_LINE_CHARACTERS = 64 * 1024 * 1024
/** Milliseconds until code that ignores the interrupt ends with its interpreter. */
const INTERRUPT_TIME = 5000
const END = '{"type": "end_of_execution"}'

interface Running {
  process: Process
  events: AsyncIterator<LogEvent>
  /** What it printed that no run has yielded yet, from the start of a line: a long line comes in thousands of pieces. */
  rest: string[]
  restLength: number
}

export class PythonKernel implements Kernel {
  readonly #hosted: Hosted
  readonly #cwd: string
  #running: Running | undefined

  constructor(hosted: Hosted, cwd: string) {
    this.#hosted = hosted
    this.#cwd = cwd
  }

  async *run({ code, env }: Code, signal: AbortSignal): AsyncGenerator<string> {
    let running = await this.#ready()
    if (signal.aborted) return
    let interrupting: Promise<void> | undefined
    let killing: NodeJS.Timeout | undefined
    const leave = () => {
      interrupting = this.#interrupt(running.process).catch(() => {})
      killing = clock.setTimeout(() => this.end().catch(() => {}), INTERRUPT_TIME)
    }
    signal.addEventListener('abort', leave)
    try {
      const request = `${JSON.stringify({ code, env_vars: env })}\n`
      try {
        await running.process.write(request)
      } catch {
        // It has just ended.
        await this.end()
        running = await this.#ready()
        await running.process.write(request)
      }
      yield* this.#lines(running)
    } finally {
      signal.removeEventListener('abort', leave)
      clock.clearTimeout(killing)
      // Otherwise it could reach the next code.
      await interrupting
    }
  }

  async end(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    await running?.process.kill('SIGKILL')
  }

  isInMemory(): boolean {
    return this.#running?.process.status === 'running'
  }

  keep(): undefined {}

  /** The interpreter, which may have ended since the last code. */
  async #ready(): Promise<Running> {
    if (this.#running?.process.status !== 'running') this.#running = await this.#start()
    return this.#running
  }

  async #start(): Promise<Running> {
    const process = await this.#hosted.sandbox.startProcess(['python3', '-u', '-c', PROGRAM], {
      cwd: this.#cwd,
      input: 'pipe',
      logLimit: LOG_BYTES,
    })
    return { process, events: process.output()[Symbol.asyncIterator](), rest: [], restLength: 0 }
  }

  /** Whole lines, until the code has ended. */
  async *#lines(running: Running): AsyncGenerator<string> {
    let printed = ''
    for (;;) {
      const { value: event, done } = await running.events.next()
      const isTooLong = running.restLength > MAX_LINE_CHARACTERS
      if (done || event.type === 'exit' || event.missing !== undefined || isTooLong) {
        await this.end()
        yield line({
          type: 'error',
          name: 'KernelDied',
          value: 'the interpreter has ended',
          traceback: printed,
        })
        yield line({ type: 'end_of_execution' })
        return
      }
      if (event.type === 'stderr') {
        // Only what goes wrong before it can reply.
        printed = (printed + event.data).slice(-2000)
        continue
      }
      const keep = (rest: string[]) => {
        running.rest = rest
        running.restLength = rest.reduce((sum, piece) => sum + piece.length, 0)
      }
      if (!event.data.includes('\n')) {
        running.rest.push(event.data)
        running.restLength += event.data.length
        continue
      }
      const text = running.rest.join('') + event.data
      const whole = text.lastIndexOf('\n') + 1
      // Threads may print after the end, which belongs to the next code.
      const at = `\n${text}`.indexOf(`\n${END}\n`)
      const end = at < 0 ? whole : at + END.length + 1
      keep([text.slice(end)])
      if (end > 0) yield text.slice(0, end)
      if (at >= 0) return
    }
  }

  async #interrupt(process: Process): Promise<void> {
    // Inside, so that the number cannot be that of another process.
    const pid = String(innerPid(process.pid))
    await this.#hosted.sandbox.exec(['kill', '-INT', pid])
  }
}
