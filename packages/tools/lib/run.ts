/**
 * A command of `bash`, from its start until it is forgotten.
 *
 * It begins as a command of its session. If it takes long or waits for input, it becomes a process, and the session is free.
 * A command in a terminal is a process from the beginning.
 */
import type {
  AnySession,
  Denial,
  ExecResult,
  ExecStream,
  HandBack,
  KilledBy,
  KillReason,
  LogLines,
  LogLinesOptions,
  Process,
  ProcessWaiting,
  Question,
  Signal,
} from 'nacre'
import { clock, inTime, isCode, refusalCode } from 'nacre/internal'
import { END_LENGTH, Ends } from './ends.js'
import { ToolError } from './schema.js'
import { FullScreen, Screen, TERMINAL } from './screen.js'
import type { Excerpt } from './shorten.js'

/** Bytes of a run's log, as for a process. */
export const LOG_LIMIT = 64 * 1024 * 1024

/** Most commands end by then, and nothing has to look at them meanwhile. */
const SOON_MS = 5

/** What a command and a process have in common. */
type Handle = Pick<Process, 'write' | 'closeInput' | 'waitFor' | 'waiting' | 'getLogLines'> & {
  kill(signal?: Signal, options?: KillReason): Promise<boolean>
}

/** Why the tools kill what they have started, as others see it in `killedBy`. */
export const KILLS = {
  tool: 'a call of the tool kill',
  cancel: 'its tool call was cancelled',
  timeout: 'its time limit',
  close: 'its tools were closed',
} as const

export interface RunPlan {
  command: string
  cwd: string | undefined
  /** Milliseconds. */
  timeout: number
  /** What is written at first. Without it, a command without a terminal has no input. */
  stdin: string | undefined
}

/** A session with the name that replies have. */
export interface NamedSession {
  session: AnySession
  name: string
}

/** How a run ended. */
export interface RunEnd {
  exitCode: number | null
  signal: string | null
  /** null if the process was lost. */
  reason: 'exit' | 'signal' | 'timeout' | 'oom' | 'killed' | 'host-lost' | null
  killedBy: KilledBy | null
  /** Milliseconds. */
  duration: number
  /** The directory of the session, unless the command became a process. */
  cwd?: string
  wasRestarted: boolean
  /** Processor time in ms, if it is known. */
  cpuMs?: number | undefined
  /** What a reply names. */
  refused: Denial[]
}

export class Run {
  readonly id: string
  readonly command: string
  readonly sessionName: string
  readonly sessionId: string
  readonly hasInput: boolean
  readonly hasTerminal: boolean
  /** Whether it became a process while it ran, so that its session has not kept what it changed. */
  wasDetached = false
  /** What it waits for, as far as the last look has shown. */
  waiting: ProcessWaiting | undefined
  /** Once it has ended. */
  end: RunEnd | undefined
  /** Why it could not run, or was lost. */
  failure: unknown
  /** Resolves when everything it started has ended. Rejects if it could not run, or was lost. */
  readonly ended: Promise<RunEnd>
  /** Resolves when it has ended, has become a process, or waits for input. */
  readonly yielded: Promise<void>
  readonly #startedAt = clock.performance.now()
  readonly #handle: () => Handle
  readonly #stream: ExecStream<'buffer'> | undefined
  #process: Process | undefined
  #timer: NodeJS.Timeout | undefined
  #hasBegun = false
  #unseen = new Ends()
  #cursor = 0
  #lines = 0
  #isAtLineStart = true
  #reading: Promise<void> = Promise.resolve()
  #handedBack = 0
  readonly #fullScreen = new FullScreen()
  #screen: { screen: Screen; cursor: number } | undefined

  private constructor(
    id: string,
    { name, session }: NamedSession,
    plan: RunPlan,
    start: Process | ((begun: () => void) => ExecStream<'buffer'>),
    yieldAfter: number,
  ) {
    this.id = id
    this.command = plan.command
    this.sessionName = name
    this.sessionId = session.id
    this.hasTerminal = typeof start !== 'function'
    this.hasInput = this.hasTerminal || plan.stdin !== undefined
    if (typeof start === 'function') {
      let begin = () => {}
      const begun = new Promise<void>((resolve) => {
        begin = resolve
      })
      const stream = start(() => {
        this.#hasBegun = true
        begin()
      })
      this.#stream = stream
      this.#handle = () => this.#process ?? stream
      this.ended = this.#endOfStream(stream)
      this.yielded = this.#yield(stream, begun, plan.timeout, yieldAfter)
    } else {
      this.#hasBegun = true
      this.#process = start
      this.#handle = () => start
      this.ended = this.#endOfProcess(start)
      this.yielded = this.waitFor({ timeout: yieldAfter }).then(() => {})
    }
    this.ended.catch((error) => {
      this.failure = error
    })
    this.yielded.catch(() => {})
    // The command may end before it has read its input.
    if (plan.stdin)
      this.#handle()
        .write(plan.stdin)
        .catch(() => {})
  }

  /** Starts a command of the session. Throws OptionError. */
  static inSession(id: string, open: NamedSession, plan: RunPlan, yieldAfter: number): Run {
    const { session } = open
    const { command, cwd, timeout, stdin } = plan
    const start = (onStart: () => void) =>
      session.execStream(command, {
        ...(cwd === undefined ? {} : { cwd }),
        ...(stdin === undefined ? {} : { input: 'pipe' }),
        timeout,
        encoding: 'buffer',
        mergeOutput: true,
        maxBuffer: 2 * END_LENGTH,
        logLimit: LOG_LIMIT,
        onStart,
      })
    return new Run(id, open, plan, start, yieldAfter)
  }

  /** Starts a process with a terminal. Rejects as `startProcess` does. */
  static async inTerminal(id: string, open: NamedSession, plan: RunPlan, yieldAfter: number) {
    const { command, cwd, timeout } = plan
    const process = await open.session.startProcess(command, {
      ...(cwd === undefined ? {} : { cwd }),
      // With a terminal, pagers work.
      env: { PAGER: undefined, GIT_PAGER: undefined },
      timeout,
      logLimit: LOG_LIMIT,
      pty: TERMINAL,
    })
    return new Run(id, open, plan, process, yieldAfter)
  }

  /** Milliseconds since its start. */
  get age(): number {
    return this.end?.duration ?? clock.performance.now() - this.#startedAt
  }

  get isOver(): boolean {
    return this.end !== undefined || this.failure !== undefined
  }

  get isQueued(): boolean {
    return !this.#hasBegun && !this.isOver
  }

  get isFullScreen(): boolean {
    return this.#fullScreen.isOn && !this.isOver
  }

  /** Whether what was read so far ends with a newline, so that it is no prompt. */
  get isAtLineStart(): boolean {
    return this.#isAtLineStart
  }

  /** Bytes of output that were read so far. */
  get bytes(): number {
    return this.#cursor
  }

  /** Kills it with everything it started. Resolves when all have ended. */
  async kill(cause: keyof typeof KILLS, signal?: Signal): Promise<void> {
    await this.#handle().kill(signal, { reason: KILLS[cause] })
    await this.ended.catch(() => {})
  }

  /** Waits until it ends, waits for input, prints a new line that matches `log`, or the time is up. */
  async waitFor(limits: {
    timeout: number
    log?: string | undefined
    signal?: AbortSignal | undefined
  }): Promise<void> {
    this.waiting = undefined
    const { log, signal } = limits
    const { by, input } = await this.#handle().waitFor({
      input: this.hasInput,
      ...(log === undefined ? {} : { log, fromLine: this.#lines + 1 }),
      // 0 would be no limit.
      timeout: Math.max(1, limits.timeout),
      ...(signal === undefined ? {} : { signal }),
    })
    if (by === 'exit') await this.ended
    else if (by === 'input') this.waiting = input
  }

  /** The note of the last caller who held its input, unless an earlier reply has shown it. */
  async handBack(): Promise<HandBack | undefined> {
    // When nacre does not know the process any more, its last state counts.
    await this.#process?.getStatus().catch(() => {})
    const handedBack = this.#process?.handedBack ?? null
    if (handedBack === null || handedBack.time.getTime() === this.#handedBack) return undefined
    this.#handedBack = handedBack.time.getTime()
    return handedBack
  }

  /** Looks once whether it waits for input besides other things. */
  async look(): Promise<void> {
    this.waiting = (await this.#handle().waiting()) ?? undefined
  }

  /** Writes to its input. Rejects with INPUT_CLOSED. */
  write(text: string): Promise<void> {
    return this.#handle().write(text)
  }

  closeInput(): Promise<void> {
    return this.#handle().closeInput()
  }

  /** Takes the output since the last time. */
  async take(): Promise<Excerpt> {
    // The end has read everything, and the log may have been dropped.
    if (this.end === undefined) await this.#read()
    const { excerpt } = this.#unseen
    this.#unseen = new Ends()
    return excerpt
  }

  /** Lines of the log. Rejects if the log is not kept any more. */
  logLines(options: LogLinesOptions): Promise<LogLines> {
    // The log of a command stays longer than that of a process.
    return this.#keep((this.#stream ?? this.#handle()).getLogLines(options))
  }

  /** What the terminal shows. */
  async screen(): Promise<Screen> {
    const process = this.#process
    if (!this.hasTerminal || process === undefined)
      throw new ToolError(`${this.id} has no terminal: start it with pty.`)
    const feed = async () => {
      this.#screen ??= { screen: await Screen.open(), cursor: 0 }
      const state = this.#screen
      for await (const event of process.output({ cursor: state.cursor, follow: false })) {
        if (event.type === 'exit') continue
        state.cursor = event.cursor
        await state.screen.write(event.data)
      }
      return state.screen
    }
    return this.#keep(this.#inTurn(feed))
  }

  /** Forgets the screen. */
  close(): void {
    this.#screen?.screen.close()
    this.#screen = undefined
  }

  async #keep<T>(reading: Promise<T>): Promise<T> {
    try {
      return await reading
    } catch (error) {
      if (!isCode(error, 'PROCESS_NOT_FOUND') && refusalCode(error) !== 'RUN_NOT_FOUND') throw error
      throw new ToolError(`The output of ${this.id} is not kept any more.`, 'OUTPUT_NOT_KEPT')
    }
  }

  /** Makes it a process when the time is up or it waits for input. */
  async #yield(
    stream: ExecStream<'buffer'>,
    begun: Promise<void>,
    timeout: number,
    yieldAfter: number,
  ): Promise<void> {
    await Promise.race([begun, this.ended])
    if (this.end !== undefined) return
    const begunAt = clock.performance.now()
    if (yieldAfter > SOON_MS) await inTime(SOON_MS, this.ended)
    if (this.end !== undefined) return
    await this.waitFor({ timeout: yieldAfter })
    if (this.end !== undefined) return
    try {
      this.#process = await stream.detach()
    } catch (error) {
      if (!isCode(error, 'DETACH_FAILED')) throw error
      // It has just ended, or is being killed.
      await this.ended
      return
    }
    if (this.isOver) return
    this.wasDetached = true
    // The engine's own time limit ends with detach.
    const left = timeout - (clock.performance.now() - begunAt)
    this.#timer = clock.setTimeout(() => void this.kill('timeout').catch(() => {}), left)
  }

  async #endOfStream(stream: ExecStream<'buffer'>): Promise<RunEnd> {
    // Without a reader of its result from the beginning on, a command would block once 4 MiB waited for one.
    const result = await stream.result.catch((error) =>
      this.#process === undefined ? resultOf(error) : undefined,
    )
    if (this.#process !== undefined) return this.#endOfProcess(this.#process)
    const { stdout, truncated, truncatedAt, ...end } = result as ExecResult<'buffer'>
    const gap = truncatedAt?.stdout ?? stdout.length
    this.#add(decode(stdout.subarray(0, gap)))
    if (truncated !== null) this.#add(decode(stdout.subarray(gap)), truncated.stdout)
    this.#cursor = stdout.length + (truncated?.stdout ?? 0)
    const { exitCode, signal, timedOut, cancelled, killedBy, duration, cwd, denials } = end
    const reason = timedOut ? 'timeout' : cancelled ? 'killed' : signal === null ? 'exit' : 'signal'
    const refused = denials.filter(({ kind }) => kind !== 'config')
    const wasRestarted = end.sessionRestarted
    const cpuMs = end.usage?.cpuMs
    return this.#finish({ exitCode, signal, reason, killedBy, duration, cwd, wasRestarted, cpuMs, refused })
  }

  async #endOfProcess(process: Process): Promise<RunEnd> {
    const { exitCode, signal, reason } = await process
      .waitForExit()
      .finally(() => clock.clearTimeout(this.#timer))
    // nacre forgets the process after a while.
    await this.#read()
    return this.#finish({
      exitCode,
      signal,
      reason: process.killedBy?.reason === KILLS.timeout ? 'timeout' : reason,
      killedBy: process.killedBy,
      duration: clock.performance.now() - this.#startedAt,
      wasRestarted: false,
      refused: [],
    })
  }

  #finish(end: RunEnd): RunEnd {
    this.end = end
    this.waiting = undefined
    return end
  }

  /** Reads new output of the process. */
  #read(): Promise<void> {
    return this.#inTurn(async () => {
      const process = this.#process
      if (process === undefined) return
      for await (const event of process.output({ cursor: this.#cursor, follow: false })) {
        if (event.type === 'exit') continue
        this.#cursor = event.cursor
        this.#add(event.data, event.missing)
        this.#fullScreen.add(event.data)
      }
    })
  }

  /** Runs one reader at a time: each goes on where the last one has ended. */
  #inTurn<T>(read: () => Promise<T>): Promise<T> {
    const turn = this.#reading.then(read)
    this.#reading = turn.then(
      () => {},
      () => {},
    )
    return turn
  }

  #add(text: string, missing = 0): void {
    this.#unseen.add(text, missing)
    if (text === '') return
    this.#isAtLineStart = text.endsWith('\n')
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) this.#lines++
  }
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

/** The result of a command that was stopped. Any other error says why it could not run. */
function resultOf(error: unknown): ExecResult<'buffer'> {
  const { result } = error as { result?: ExecResult<'buffer'> }
  if (isCode(error, 'COMMAND_TIMEOUT') && result !== undefined) return result
  throw error
}

const LONGEST_PATH = 200

/** What a program wanted of the network: a host, or a request to it. */
export function wanted({ target, request }: Pick<Question, 'target' | 'request'>): string {
  return request === undefined ? target : `${request.method} ${target}${request.path.slice(0, LONGEST_PATH)}`
}
