/**
 * A minimal container session manager, modelled on those that nacre/container is for. It has a lock per session, its own
 * error classes that it checks with instanceof, a new session when the shell has ended, and streams that are read in the
 * background.
 */
import { createSessionClass, type ExecEvent, type ExecOptions, type SessionOptions } from 'nacre/container'

export class ShellEnded extends Error {
  constructor(
    readonly sessionId: string,
    readonly exitCode: number | null,
  ) {
    super(`the shell of ${sessionId} ended with ${exitCode}`)
  }
}

export class SessionGone extends Error {
  constructor(readonly sessionId: string) {
    super(`${sessionId} is gone`)
  }
}

/** The drop-in session with this container's errors. */
export const Session = createSessionClass({
  ShellTerminatedError: ShellEnded,
  SessionDestroyedError: SessionGone,
})
export type Session = InstanceType<typeof Session>

export type Reply =
  | { success: true; stdout: string; stderr: string; exitCode: number }
  | { success: false; code: 'SESSION_TERMINATED'; sessionId: string; exitCode: number | null }
  | { success: false; code: 'SESSION_DESTROYED'; sessionId: string }
  | { success: false; code: 'COMMAND_ERROR'; message: string }

/** A stream that the container reads in the background. */
export interface BackgroundStream {
  events: ExecEvent[]
  ended: Promise<void>
}

export class SessionManager {
  readonly #sessions = new Map<string, Session>()
  readonly #locks = new Map<string, Promise<unknown>>()
  readonly #options: Omit<SessionOptions, 'id'>

  constructor(options: Omit<SessionOptions, 'id'>) {
    this.#options = options
  }

  execute(id: string, command: string, options?: ExecOptions): Promise<Reply> {
    return this.#inTurn(id, async () => {
      try {
        const { stdout, stderr, exitCode } = await (await this.session(id)).exec(command, options)
        return { success: true, stdout, stderr, exitCode }
      } catch (error) {
        return this.#failure(error)
      }
    })
  }

  /** Holds the lock only until the command has started. */
  stream(id: string, command: string, commandId: string): Promise<BackgroundStream> {
    return this.#inTurn(id, async () => {
      const generator = (await this.session(id)).execStream(command, { commandId })
      const events: ExecEvent[] = []
      const first = await generator.next()
      if (!first.done) events.push(first.value)
      const ended = (async () => {
        for await (const event of generator) events.push(event)
      })()
      return { events, ended }
    })
  }

  /** Not queued: a command is killed while others run. */
  async kill(id: string, commandId: string): Promise<boolean> {
    return (await this.#sessions.get(id)?.killCommand(commandId)) ?? false
  }

  /** The session, or a new session if its shell has ended. */
  async session(id: string): Promise<Session> {
    const known = this.#sessions.get(id)
    if (known?.isReady()) return known
    const session = new Session({ ...this.#options, id })
    await session.initialize()
    this.#sessions.set(id, session)
    return session
  }

  async delete(id: string): Promise<void> {
    const session = this.#sessions.get(id)
    this.#sessions.delete(id)
    await session?.destroy()
  }

  async #failure(error: unknown): Promise<Reply> {
    if (error instanceof ShellEnded) {
      const { sessionId, exitCode } = error
      await this.delete(sessionId)
      return { success: false, code: 'SESSION_TERMINATED', sessionId, exitCode }
    }
    if (error instanceof SessionGone)
      return { success: false, code: 'SESSION_DESTROYED', sessionId: error.sessionId }
    return { success: false, code: 'COMMAND_ERROR', message: String(error) }
  }

  #inTurn<T>(id: string, action: () => Promise<T>): Promise<T> {
    const turn = (this.#locks.get(id) ?? Promise.resolve()).then(action)
    this.#locks.set(
      id,
      turn.catch(() => {}),
    )
    return turn
  }
}

/** The text of one stream from the events. */
export function textIn(events: ExecEvent[], type: 'stdout' | 'stderr' = 'stdout'): string {
  return events.map((event) => (event.type === type ? event.data : '')).join('')
}
