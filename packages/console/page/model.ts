/** What is known of the sandbox, by its events and by what there was before them. */
import type { ProcessWaiting, Question, SandboxEvent, Usage } from 'nacre'
import type { SandboxClient } from 'nacre/client'

export interface Command {
  id: string
  sessionId: string
  text: string
  state: 'queued' | 'running' | 'ended'
  startTime: Date
  /** Milliseconds, when it has ended. */
  duration: number
  /** What it has used, if that is known when it has ended. */
  usage: Usage | undefined
  bytes: number
  /** How it has ended, like `exit 1`. */
  end: string
  failed: boolean
  cwd: string
  waiting: ProcessWaiting | null
}

export interface Program {
  id: string
  sessionId: string
  command: string
  hasTerminal: boolean
  size: Size
  waiting: ProcessWaiting | null
  isRunning: boolean
  startTime: Date
  end: string
  failed: boolean
}

/** A request to a host with a secret or rules, which has ended. */
export type Requested = Extract<SandboxEvent, { type: 'request' }>

/** Something was refused. */
export type Denied = Extract<SandboxEvent, { type: 'denied' }>

/** A connection or request that waits for an answer. */
export type Asked = Omit<Question, 'askedAt'>

export interface Size {
  cols: number
  rows: number
}

/** The size of what has no terminal. */
export const SIZE: Size = { cols: 120, rows: 30 }

/** Commands of a session, and ended processes, that are kept. */
const MOST_COMMANDS = 500
const MOST_ENDED = 20
/** Requests of all sessions that are kept, and refusals. */
const MOST_LISTED = 1000
/** What kills because of a limit. */
const LIMITS = new Set(['timeout', 'oom', 'outputLimit', 'budget'])

export class Model {
  /** Their commands, the oldest first. */
  readonly sessions = new Map<string, Command[]>()
  readonly programs = new Map<string, Program>()
  /** The oldest first. */
  readonly requests: Requested[] = []
  /** The oldest first. */
  readonly denials: Denied[] = []
  /** Connections that wait for an answer. */
  readonly questions = new Map<string, Asked>()
  /** False: the server does not answer, so nothing is known of what ran. */
  isLive = true
  /** Changes with everything that happens. */
  version = 0

  /** What runs longest, by the name of its tile. */
  get longest(): { name: string; startTime: Date } | undefined {
    const commands = [...this.sessions.values()]
      .map((commands) => commands.findLast(({ state }) => state === 'running'))
      .filter((command) => command !== undefined)
      .map(({ sessionId, startTime }) => ({ name: sessionId, startTime }))
    const programs = [...this.programs.values()]
      .filter(({ isRunning }) => isRunning)
      .map(({ id, startTime }) => ({ name: id, startTime }))
    return [...commands, ...programs].reduce<{ name: string; startTime: Date } | undefined>(
      (first, next) => (first === undefined || next.startTime < first.startTime ? next : first),
      undefined,
    )
  }

  /** What may have asked a question of a session: its command, and its processes. */
  askersOf(sessionId: string): string[] {
    const command = this.sessions.get(sessionId)?.findLast(({ state }) => state === 'running')
    const programs = [...this.programs.values()].filter(
      (program) => program.isRunning && program.sessionId === sessionId,
    )
    return [...(command === undefined ? [] : [command.text]), ...programs.map(({ id }) => id)]
  }

  /** Reads what the events do not say: they are kept for some time only. */
  async load(client: SandboxClient): Promise<void> {
    const [sessions, processes, questions] = await Promise.all([
      client.listSessions(),
      client.listProcesses(),
      client.questions(),
    ])
    this.version++
    this.questions.clear()
    for (const question of questions) this.questions.set(question.id, question)
    const open = new Set(sessions.map(({ id }) => id))
    for (const id of this.sessions.keys()) if (!open.has(id)) this.sessions.delete(id)
    for (const { id } of sessions) this.#session(id)
    const live = processes.filter(({ status }) => status === 'running' || status === 'starting')
    const running = new Set(live.map(({ id }) => id))
    for (const id of this.programs.keys())
      if (!running.has(id)) this.#change(id, { isRunning: false, waiting: null })
    for (const commands of this.sessions.values())
      for (const command of commands.slice(0, -1)) if (command.state === 'running') command.state = 'ended'
    for (const { id, sessionId, command, terminal, startTime } of live)
      if (!this.programs.get(id)?.isRunning) this.#start(id, sessionId, command, terminal, startTime)
  }

  receive(event: SandboxEvent): void {
    this.version++
    switch (event.type) {
      case 'sessionStarted':
        this.#session(event.sessionId)
        break
      case 'sessionEnded':
        this.sessions.delete(event.sessionId)
        break
      case 'commandQueued':
        this.#command(event.sessionId, event.id, event.command, event.time).state = 'queued'
        break
      case 'commandStarted':
        Object.assign(this.#command(event.sessionId, event.id, event.command, event.time), {
          state: 'running',
          startTime: event.time,
        })
        break
      case 'commandOutput':
        Object.assign(this.#command(event.sessionId, event.id, '', event.time), {
          bytes: event.stdoutBytes + event.stderrBytes,
          waiting: null,
        })
        break
      case 'commandWaiting':
        this.#command(event.sessionId, event.id, '', event.time).waiting = event.waiting
        break
      case 'commandDetached':
        this.#command(event.sessionId, event.id, '', event.time).end = `goes on as ${event.processId}`
        break
      case 'commandEnded': {
        const command = this.#command(event.sessionId, event.id, '', event.time)
        Object.assign(command, {
          state: 'ended',
          duration: event.duration,
          usage: event.usage,
          bytes: event.stdoutBytes + event.stderrBytes,
          end: command.end || endOf(event),
          failed: command.end === '' && isFailure(event),
          cwd: event.cwd,
          waiting: null,
        })
        break
      }
      case 'processStarted':
        this.#start(event.id, event.sessionId, event.command, event.terminal, event.time)
        break
      case 'processResized':
        this.#change(event.id, { size: event })
        break
      case 'processWaiting':
        this.#change(event.id, { waiting: event.waiting })
        break
      case 'processEnded':
        this.#change(event.id, {
          ...{ isRunning: false, waiting: null, end: endOf(event), failed: isFailure(event) },
        })
        this.#forgetEnded()
        break
      case 'request':
        add(this.requests, event)
        break
      case 'denied':
        add(this.denials, event)
        break
      case 'asked':
        this.questions.set(event.id, event)
        break
      case 'answered':
        this.questions.delete(event.id)
        break
      default:
    }
  }

  #session(id: string): Command[] {
    let commands = this.sessions.get(id)
    if (commands === undefined) {
      commands = []
      this.sessions.set(id, commands)
    }
    return commands
  }

  /** A command that is known, or is added. */
  #command(sessionId: string, id: string, text: string, time: Date): Command {
    const commands = this.#session(sessionId)
    const known = commands.findLast((command) => command.id === id)
    if (known !== undefined) return known
    const command: Command = {
      ...{ id, sessionId, text, state: 'running', startTime: time, duration: 0, bytes: 0 },
      usage: undefined,
      ...{ end: '', failed: false, cwd: '', waiting: null },
    }
    commands.push(command)
    if (commands.length > MOST_COMMANDS) commands.shift()
    return command
  }

  #start(id: string, sessionId: string, command: string, terminal: Size | null, startTime: Date): void {
    // Another one may have had the name.
    this.programs.delete(id)
    this.programs.set(id, {
      ...{ id, sessionId, command, hasTerminal: terminal !== null, size: terminal ?? SIZE },
      ...{ waiting: null, isRunning: true, startTime, end: '', failed: false },
    })
  }

  #change(id: string, change: Partial<Program>): void {
    const program = this.programs.get(id)
    if (program !== undefined) Object.assign(program, change)
  }

  #forgetEnded(): void {
    const ended = [...this.programs.values()].filter(({ isRunning }) => !isRunning)
    for (const { id } of ended.slice(0, -MOST_ENDED)) this.programs.delete(id)
  }
}

/** Keeps the newest ones. */
function add<T>(list: T[], one: T): void {
  list.push(one)
  if (list.length > MOST_LISTED) list.shift()
}

interface End {
  exitCode: number | null
  signal: string | null
  killedBy: { by: string; reason: string | null } | null
}

/** What a caller has killed has not failed. */
function isFailure({ exitCode, killedBy }: End): boolean {
  return exitCode !== 0 && (killedBy === null || LIMITS.has(killedBy.by))
}

function endOf({ exitCode, signal, killedBy }: End): string {
  const how = exitCode === null ? (signal ?? 'did not run') : `exit ${exitCode}`
  if (killedBy === null) return how
  const { by, reason } = killedBy
  return `${how}, killed by ${by}${reason === null ? '' : `: ${reason}`}`
}

/** What a badge says. */
export function waitsFor({ how, program, sure }: ProcessWaiting): string {
  const what = how === 'secret' ? 'a password' : how === 'keys' ? 'a key' : 'input'
  return `${program} ${sure ? 'waits' : 'may wait'} for ${what}`
}
