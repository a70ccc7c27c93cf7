/**
 * Processes that wait for their reader, and files below a root: what a server of sandboxd needs beyond `Sandbox`.
 */
import { readCommand } from '../../options/command.js'
import type { ProcessOptions, Files as PublicFiles, Process as PublicProcess } from '../../public/index.js'
import { readProcess } from '../../requests/process.js'
import { Files } from '../../sandbox/files.js'
import { processOf } from '../../sandbox/process.js'
import type { NativeBackend } from './backend.js'
import type { LocalProcess } from './processes/process.js'

export class HeldRuns {
  readonly #backend: NativeBackend

  constructor(backend: NativeBackend) {
    this.#backend = backend
  }

  /**
   * As `Sandbox.startProcess`, for a program, which replaces the shell in every mode of the engine: signals for the process
   * group then reach it alone. At most `window` bytes of output wait for `take`; beyond, the process blocks.
   */
  async start(words: readonly string[], options: ProcessOptions, window: number): Promise<HeldProcess> {
    const request = readProcess(words, options)
    const command = readCommand(['exec', '--', ...words])
    return new HeldProcess(await this.#backend.startHeld({ ...request, command, window }))
  }

  /** Files as the session sees them, whose paths start at `root` and do not leave it. */
  files(sessionId: string, root: string): PublicFiles {
    return new Files(this.#backend.filesBelow(sessionId, root))
  }

  /** Sets variables in all sessions, those to come included. */
  announce(vars: Record<string, string>): void {
    this.#backend.announce({ names: Object.keys(vars), values: Object.values(vars) })
  }

  /** The environment that sessions start from. */
  env(): Record<string, string> {
    return this.#backend.env()
  }

  get isDestroyed(): boolean {
    return this.#backend.isDestroyed
  }

  /** Calls `listener` when the sandbox is destroyed. Returns a function that removes it. */
  onDestroy(listener: () => void): () => void {
    return this.#backend.onDestroy(listener)
  }

  /** Forgets a process that has ended, and its log. */
  forget(processId: string): void {
    this.#backend.forgetProcess(processId)
  }
}

export class HeldProcess {
  readonly process: PublicProcess
  readonly #local: LocalProcess

  constructor(local: LocalProcess) {
    this.#local = local
    this.process = processOf(local)
  }

  /** The reader has taken the output before this cursor. */
  take(cursor: number): void {
    this.#local.take(cursor)
  }

  /** Sends a signal to the process group. False when the process has ended. */
  signal(signal: number): boolean {
    return this.#local.signal(signal)
  }
}
