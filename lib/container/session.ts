/**
 * The drop-in session: its states, and how each call behaves in them.
 *
 *   new -> ready -> terminated (the shell has ended) -> destroyed
 *
 * From any of these it can be destroyed. Background processes continue after the shell has ended, until the session is
 * destroyed.
 */

import { crypto, util } from '../base/builtin.js'
import { isCode, SandboxError } from '../base/errors.js'
import { report } from '../base/report.js'
import { performance } from '../base/timers.js'
import type * as api from '../calls/container.js'
import { containerExecOptions, containerStreamOptions } from '../calls/container.js'
import { readOptions } from '../schema/read.js'
import { Commands } from './commands.js'
import { chooseErrors, notReady } from './errors.js'
import { execIn } from './exec.js'
import { type CommandPlan, planSession, type SessionPlan } from './options.js'
import { type Shell, startShell } from './shell.js'
import { BACKLOG_BYTES, type Background, CommandStream } from './stream.js'

const { inspect } = util

/** Creates the class, with the error classes of a container that checks them with instanceof. Throws OptionError. */
export function createSessionClass(errors?: Partial<api.SessionErrors>): api.SessionConstructor {
  const classes = chooseErrors(errors)
  return class Session extends ContainerSession {
    constructor(options: api.SessionOptions) {
      super(planSession(options), classes)
    }
  }
}

class ContainerSession implements api.Session {
  pty: unknown = null
  readonly #plan: SessionPlan
  readonly #errors: api.SessionErrors
  readonly #commands = new Commands()
  #shell: Shell | undefined
  #initializing: Promise<void> | undefined
  #destroying: Promise<void> | undefined
  #state: 'new' | 'ready' | 'terminated' = 'new'
  #exitCode: number | null = null

  constructor(plan: SessionPlan, errors: api.SessionErrors) {
    this.#plan = plan
    this.#errors = errors
  }

  initialize(): Promise<void> {
    this.#initializing ??= this.#initialize()
    return this.#initializing
  }

  async exec(command: string, options?: api.ExecOptions): Promise<api.RawExecResult> {
    const plan = readOptions(containerExecOptions, options, 'exec')
    const shell = this.#ready()
    try {
      const result = await execIn(shell, command, plan, this.#plan.commandTimeoutMs)
      this.#log(plan, `exit code ${result.exitCode} after ${Math.round(result.duration)} ms`)
      return result
    } catch (error) {
      const explained = this.#explain(error)
      this.#log(plan, explained instanceof Error ? explained.message : String(explained))
      throw explained
    }
  }

  execStream(command: string, options?: api.StreamOptions): AsyncGenerator<api.ExecEvent, void, undefined> {
    return new CommandStream(() => this.#begin(command, options))
  }

  isReady(): boolean {
    return this.#state === 'ready' && !this.wasDestroyed()
  }

  wasDestroyed(): boolean {
    return this.#destroying !== undefined
  }

  getShellExitCode(): number | null {
    return this.#exitCode
  }

  async killCommand(commandId: string, waitForExit = true): Promise<boolean> {
    try {
      return await this.#commands.kill(commandId, waitForExit)
    } catch (error) {
      if (!isCode(error, 'SANDBOX_DESTROYED')) throw error
      // `destroy` kills the command.
      await this.#destroying
      return false
    }
  }

  getRunningCommandIds(): string[] {
    return this.#commands.ids()
  }

  destroy(): Promise<void> {
    this.#destroying ??= this.#destroy(this.#shell)
    return this.#destroying
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.destroy()
  }

  /** Only the id: the environment can contain secrets. */
  toJSON(): { id: string } {
    return { id: this.#plan.id }
  }

  [inspect.custom](): string {
    return `Session { id: ${inspect(this.#plan.id)} }`
  }

  async #destroy(shell: Shell | undefined): Promise<void> {
    // The engine reports the ends of processes and the end of `destroy` in any order.
    await Promise.all([shell?.backend.destroy(), this.#commands.ended()])
  }

  async #initialize(): Promise<void> {
    try {
      await startShell(this.#plan, (shell) => {
        // `destroy` may have run between two directories; nothing would end the shell afterwards.
        this.#check()
        this.#shell = shell
      })
      this.#check()
    } catch (error) {
      throw this.#explain(error)
    }
    this.#state = 'ready'
  }

  #ready(): Shell {
    if (this.#shell !== undefined && this.isReady()) return this.#shell
    throw notReady(this.#plan.id, this.wasDestroyed())
  }

  /** Throws for bad options, a session that is not ready and an id that is taken; all else is reported by events. */
  #begin(command: string, options: api.StreamOptions | undefined): Background {
    const values = readOptions(containerStreamOptions, options, 'execStream')
    const { cwd, env, timeoutMs = 0, commandId = crypto().randomUUID(), ...plan } = values
    const shell = this.#ready()
    const subject = { command, timestamp: new Date().toISOString(), timeoutMs }
    const settings = { cwd, env, timeout: timeoutMs, logLimit: BACKLOG_BYTES, autoCleanup: false }
    const starting = this.#commands.start(commandId, () => shell.start(command, settings))
    this.#log(plan, `command '${commandId}' starts in the background`)
    return {
      subject,
      begun: performance.now(),
      cwd,
      backend: shell.backend,
      starting,
      explain: (error) => this.#explain(error),
      check: () => this.#check(),
    }
  }

  /** Throws if the session was destroyed. */
  #check(): void {
    if (this.wasDestroyed()) throw new this.#errors.SessionDestroyedError(this.#plan.id)
  }

  /**
   * The container's error for an error of nacre. Records the end of the shell.
   *
   * `destroy` takes the shell, its processes and their logs away, in any order. So whatever a call that it overtakes has
   * failed with, the call reports the destruction.
   */
  #explain(error: unknown): unknown {
    if (this.wasDestroyed() && error instanceof SandboxError)
      return new this.#errors.SessionDestroyedError(this.#plan.id)
    if (!isCode(error, 'SESSION_TERMINATED')) return error
    this.#state = 'terminated'
    // Only the command that ended the shell has a result; commands queued behind it get the same code.
    this.#exitCode = error.result?.exitCode ?? this.#exitCode
    return new this.#errors.ShellTerminatedError(this.#plan.id, this.#exitCode)
  }

  /** Never logs the text of a command: it can contain secrets. */
  #log({ origin = 'user' }: CommandPlan, message: string): void {
    const { logger, id } = this.#plan
    report(logger, origin === 'internal' ? 'debug' : 'info', `session '${id}': ${message}`)
  }
}
