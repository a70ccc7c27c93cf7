/**
 * The sandbox as sandboxd sees it: a session of its own, whose directory is the root, and the files below that.
 */

import { isCode, kinds, path, plans } from 'nacre/internal'
import { type backends, type LocalProcess, type NativeBackend, ownOnly } from 'nacre/internal/server'
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
  readonly files: backends.FilesBackend
  readonly #backend: NativeBackend

  /** `root`: without links; `given` leads to it. */
  constructor(backend: NativeBackend, root: string, given: string) {
    this.root = root
    this.roots = [root, given]
    this.files = backend.filesBelow(SESSION, root)
    this.#backend = backend
  }

  get isDestroyed(): boolean {
    return this.#backend.isDestroyed
  }

  /** Variables of the sandbox. */
  env(): Record<string, string> {
    return this.#backend.env()
  }

  /** Makes the session, if it is not there. */
  async open(): Promise<void> {
    try {
      await this.#backend.createSession(ownOnly({ id: SESSION, cwd: this.root }))
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
  start(config: Config, options: ProgramOptions): Promise<LocalProcess> {
    return this.inSession(() => this.#start(config, options))
  }

  /** Forgets a program that has ended. */
  forget({ info }: LocalProcess): void {
    // The log of one that still runs belongs to the sandbox.
    if (info.status !== 'running' && !this.isDestroyed) this.#backend.forgetProcess(info.id)
  }

  /** The program replaces the shell in every engine mode, so signals for the process group reach only the program. */
  async #start(config: Config, { hasInput, terminal, signal }: ProgramOptions): Promise<LocalProcess> {
    const { command, env } = config
    const info = await this.files.stat(kinds.checkPath(config.cwd, 'cwd'))
    if (info === null) throw new Refused('NOT_FOUND', `cwd '${config.cwd}' does not exist`)
    if (info.type !== 'directory')
      throw new Refused('INVALID_ARGUMENT', `cwd '${config.cwd}' is no directory`)
    const cwd = path.join(this.root, config.cwd)
    const searched = env.PATH ?? this.env().PATH ?? ''
    if (await this.#backend.hasSession(SESSION))
      await findProgram(this.#backend.files(SESSION), command[0] ?? '', cwd, searched)
    const request = plans.readProcess(command, {
      sessionId: SESSION,
      cwd,
      env,
      signal,
      killSignal: 'SIGKILL',
      logLimit: LOG_BYTES,
      ...(hasInput && { input: 'pipe' }),
      ...(terminal && { pty: terminal }),
    })
    const replacing = kinds.readCommand(['exec', '--', ...command])
    return this.#backend.startProcess({ ...request, command: replacing, window: WINDOW_BYTES })
  }
}
