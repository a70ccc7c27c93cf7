/** Python: one process of python/kernel.py, which starts with the first code. */
import { readFileSync } from 'node:fs'
import type { LogEvent, Process } from 'nacre'
import type { Hosted } from '../hosted.js'
import { type Code, type Kernel, line } from './kernel.js'
import { innerPid } from './process.js'

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
    this.#running ??= await this.#start()
    const { process, events } = this.#running
    let killing: NodeJS.Timeout | undefined
    const leave = () => {
      void this.#interrupt(process)
      killing = setTimeout(() => void this.end(), INTERRUPT_TIME)
    }
    signal.addEventListener('abort', leave)
    try {
      await process.write(`${JSON.stringify({ code, env_vars: env })}\n`)
      yield* this.#lines(events)
    } finally {
      signal.removeEventListener('abort', leave)
      clearTimeout(killing)
    }
  }

  async end(): Promise<void> {
    const running = this.#running
    this.#running = undefined
    await running?.process.kill('SIGKILL')
  }

  async #start(): Promise<Running> {
    const process = await this.#hosted.sandbox.startProcess(['python3', '-u', '-c', PROGRAM], {
      cwd: this.#cwd,
      input: 'pipe',
      logLimit: LOG_BYTES,
    })
    return { process, events: process.output()[Symbol.asyncIterator]() }
  }

  /** Whole lines, until the code has ended. */
  async *#lines(events: AsyncIterator<LogEvent>): AsyncGenerator<string> {
    let rest = ''
    let printed = ''
    for (;;) {
      const { value: event, done } = await events.next()
      if (done || event.type === 'exit' || event.missing !== undefined || rest.length > MAX_LINE_CHARACTERS) {
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
      const text = rest + event.data
      const end = text.lastIndexOf('\n') + 1
      rest = text.slice(end)
      if (end === 0) continue
      yield text.slice(0, end)
      if (text.slice(0, end).endsWith(`${END}\n`)) return
    }
  }

  async #interrupt(process: Process): Promise<void> {
    // Inside, so that the number cannot be that of another process.
    const pid = String(innerPid(process.pid))
    await this.#hosted.sandbox.exec(['kill', '-INT', pid]).catch(() => {})
  }
}
