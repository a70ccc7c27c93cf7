/** The program that leads to a server: its pipes, its end, and what it has printed, for messages. */

import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import type { Socket } from 'node:net'
import { childProcess } from '../base/builtin.js'
import { SandboxError } from '../base/errors.js'
import { report } from '../base/report.js'
import { clearTimeout, setTimeout } from '../base/timers.js'
import type { Logger } from '../calls/index.js'
import type { EnvLists } from '../schema/env.js'
import { killGroup, LAST_WORDS_MS } from './group.js'

/** Characters of an output that a message shows. */
const MOST_SHOWN = 2000
/** Milliseconds that a program has to end after its input was closed. */
const END_MS = 5000

export interface ProgramPlan {
  argv: string[]
  /** The command line, for messages. */
  name: string
  cwd: string | undefined
  env: EnvLists | undefined
  onStderr: ((text: string) => void) | undefined
  logger: Logger | undefined
  /** Whether it has another pipe, in both directions. */
  hasControl?: boolean
}

export class Program {
  readonly name: string
  /** Resolves when it has ended. There may be last words. */
  readonly exited: Promise<void>
  /** Resolves when it has ended and its outputs are closed. */
  readonly ended: Promise<void>
  /** Why it could not be started. */
  failure: SandboxError | undefined
  readonly #child: ChildProcessWithoutNullStreams
  #stderr = ''
  #end = 'runs'
  #hasExited = false
  hasEnded = false

  /** Throws SPAWN_FAILED for what the system refuses at once. */
  constructor({ argv: [file = '', ...args], name, cwd, env, onStderr, logger, hasControl }: ProgramPlan) {
    this.name = name
    try {
      this.#child = childProcess().spawn(file, args, {
        cwd,
        env: merged(env),
        stdio: ['pipe', 'pipe', 'pipe', ...(hasControl ? ['pipe' as const] : [])],
        // Its own process group: Ctrl-C is for this program, and must not cut the connection. Windows would open a console.
        detached: process.platform !== 'win32',
        windowsHide: true,
      })
    } catch (error) {
      throw spawnError(name, error as NodeJS.ErrnoException)
    }
    const { stdin, stdout, stderr } = this.#child
    // Otherwise it would not be closed.
    this.control?.on('error', () => {}).resume()
    stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-MOST_SHOWN)
      try {
        onStderr?.(text)
      } catch (error) {
        report(logger, 'error', `onStderr failed: ${error}`)
      }
    })
    for (const stream of [stdin, stdout, stderr]) stream.on('error', () => {})
    this.exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#end = signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`
        // What is pending waits for its last words.
        this.hold(true)
        this.#hasExited = true
        // If another program has the pipes, it must see the end, too.
        stdin.destroy()
        this.control?.destroy()
        setTimeout(() => {
          stdout.destroy()
          stderr.destroy()
        }, LAST_WORDS_MS)
        resolve()
      })
    })
    this.ended = new Promise<void>((resolve) => {
      this.#child.once('error', (error: NodeJS.ErrnoException) => {
        if (this.#child.pid !== undefined) return
        this.failure = spawnError(name, error)
        resolve()
      })
      // Not `exit`: the last words may still be on their way.
      this.#child.once('close', () => resolve())
    }).then(() => {
      this.hasEnded = true
    })
  }

  get stdin(): ChildProcessWithoutNullStreams['stdin'] {
    return this.#child.stdin
  }

  get stdout(): ChildProcessWithoutNullStreams['stdout'] {
    return this.#child.stdout
  }

  /** Its other pipe. */
  get control(): Socket | undefined {
    return this.#child.stdio[3] as Socket | undefined
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** Its exit code, once it has ended by itself. */
  get exitCode(): number | null {
    return this.#child.exitCode
  }

  /** How it ended. */
  get end(): string {
    return this.#end
  }

  /** The last that it has printed on standard error. */
  get lastWords(): string {
    return this.#stderr.trim()
  }

  /** Whether it keeps this process alive. */
  hold(isHeld: boolean): void {
    if (this.#hasExited) return
    const { stdin, stdout, stderr } = this.#child
    for (const handle of [this.#child, stdin, stdout, stderr, this.control ?? {}] as Array<{
      ref?(): void
      unref?(): void
    }>) {
      if (isHeld) handle.ref?.()
      else handle.unref?.()
    }
  }

  /** Closes its input and waits for its end. Kills it when that takes too long. */
  async close(milliseconds = END_MS): Promise<void> {
    if (this.hasEnded) return
    this.hold(true)
    this.stdin.end()
    const timer = setTimeout(() => killGroup(this.#child), milliseconds)
    await this.ended
    clearTimeout(timer)
  }
}

/** The environment of this process with changes. */
function merged(env: EnvLists | undefined): NodeJS.ProcessEnv {
  const all = { ...process.env }
  for (const [at, name] of (env?.names ?? []).entries()) {
    const value = env?.values[at] ?? null
    if (value === null) delete all[name]
    else all[name] = value
  }
  return all
}

function spawnError(name: string, cause: NodeJS.ErrnoException): SandboxError {
  const remedies: Record<string, string> = {
    ENOENT: ': check that it is installed and on PATH, and cwd',
    E2BIG: ': its arguments or variables are too large',
  }
  const remedy = remedies[cause.code ?? ''] ?? ''
  const message = `${name} cannot be started (${cause.code ?? cause.message})${remedy}`
  return new SandboxError('SPAWN_FAILED', message, { cause })
}
