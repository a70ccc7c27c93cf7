/**
 * The sandbox as sandboxd sees it: a session of its own, whose directory is the root, and the files below that.
 */

import type { HeldProcess, HeldRuns } from '../../backends/native/held.js'
import { path } from '../../base/builtin.js'
import { isCode } from '../../base/errors.js'
import type { Files, Sandbox } from '../../public/index.js'
import type { Config } from './config.js'
import { findProgram } from './program.js'
import { Refused } from './status.js'

/** The session that programs start from. */
export const SESSION = 'sandboxd'

/** Output that waits for a reader before the program is held back. */
const WINDOW_BYTES = 256 * 1024
/** More than the window and what pipes hold at the end of a program: nothing is dropped. */
const LOG_BYTES = 16 * 1024 * 1024

export interface ProgramOptions {
  /** Whether its input stays open for `write`. */
  hasInput: boolean
  terminal: { cols: number; rows: number } | undefined
  /** Aborting kills the program with everything that it has started. */
  signal: AbortSignal
}

export class Runtime {
  readonly root: string
  /** The root, and the path that it was given as: both begin absolute paths of clients. */
  readonly roots: readonly [string, string]
  /** Files below the root. */
  readonly files: Files
  readonly #sandbox: Sandbox
  readonly #held: HeldRuns

  /** `root`: without links; `given` leads to it. */
  constructor(sandbox: Sandbox, held: HeldRuns, root: string, given: string) {
    this.root = root
    this.roots = [root, given]
    this.files = held.files(SESSION, root)
    this.#sandbox = sandbox
    this.#held = held
  }

  get isDestroyed(): boolean {
    return this.#held.isDestroyed
  }

  /** Variables of the sandbox. */
  env(): Record<string, string> {
    return this.#held.env()
  }

  /** Makes the session, if it is not there. */
  async open(): Promise<void> {
    try {
      await this.#sandbox.createSession({ id: SESSION, cwd: this.root })
    } catch (error) {
      if (!isCode(error, 'SESSION_ALREADY_EXISTS')) throw error
    }
  }

  /** Repeats a call when the session had been deleted. */
  async inSession<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      if (!isCode(error, 'SESSION_NOT_FOUND')) throw error
      await this.open()
      return call()
    }
  }

  /** Starts a program. Throws what `statusOf` knows. */
  start(config: Config, options: ProgramOptions): Promise<HeldProcess> {
    return this.inSession(() => this.#start(config, options))
  }

  /** Forgets a program that has ended. */
  forget({ process }: HeldProcess): void {
    // The log of one that still runs belongs to the sandbox.
    if (process.status !== 'running' && !this.isDestroyed) this.#held.forget(process.id)
  }

  async #start(config: Config, { hasInput, terminal, signal }: ProgramOptions): Promise<HeldProcess> {
    const { command, env } = config
    const info = await this.files.stat(config.cwd)
    if (info === null) throw new Refused('NOT_FOUND', `cwd '${config.cwd}' does not exist`)
    if (info.type !== 'directory')
      throw new Refused('INVALID_ARGUMENT', `cwd '${config.cwd}' is no directory`)
    const cwd = path.join(this.root, config.cwd)
    const session = await this.#sandbox.getSession(SESSION)
    const searched = env.PATH ?? this.#held.env().PATH ?? ''
    if (session !== null) await findProgram(session.files, command[0] ?? '', cwd, searched)
    const options = {
      sessionId: SESSION,
      cwd,
      env,
      signal,
      killSignal: 'SIGKILL' as const,
      logLimit: LOG_BYTES,
      ...(hasInput && { input: 'pipe' as const }),
      ...(terminal && { pty: terminal }),
    }
    return this.#held.start(command, options, WINDOW_BYTES)
  }
}
