/**
 * Processes that wait for their reader, and files below a root: what sandboxd needs beyond `Sandbox`.
 */

import type { ProcessOptions, Files as PublicFiles, Process as PublicProcess } from '../../public/index.js'
import { readProcess } from '../../requests/process.js'
import { Files } from '../../sandbox/files.js'
import { processOf } from '../../sandbox/process.js'
import { readCommand } from '../../schema/command.js'
import type { NativeBackend } from './backend.js'
import type { LocalProcess } from './processes/process.js'

export class HeldRuns {
  readonly #backend: NativeBackend

  constructor(backend: NativeBackend) {
    this.#backend = backend
  }

  /**
   * Like `Sandbox.startProcess`, for a program that replaces the shell in every engine mode, so signals for the process
   * group reach only the program. At most `window` bytes of output wait for `take`; beyond that, the process blocks.
   */
  async start(words: readonly string[], options: ProcessOptions, window: number): Promise<HeldProcess> {
    const request = readProcess(words, options)
    const command = readCommand(['exec', '--', ...words])
    return new HeldProcess(await this.#backend.startHeld({ ...request, command, window }))
  }

  /** The session's files, with paths that start at `root` and cannot leave it. */
  files(sessionId: string, root: string): PublicFiles {
    return new Files(this.#backend.filesBelow(sessionId, root))
  }

  /** Sets variables in all current and future sessions. */
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

  /** Forgets an ended process and its log. */
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

  /** Reports that the reader has taken the output before this cursor. */
  take(cursor: number): void {
    this.#local.take(cursor)
  }

  /** Sends a signal to the process group. False if the process has ended. */
  signal(signal: number): boolean {
    return this.#local.signal(signal)
  }
}
