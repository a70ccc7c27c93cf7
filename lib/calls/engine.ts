/**
 * A sandbox behind any program that connects its standard input and output to `nacre serve --stdio`: `ssh`, `kubectl exec`,
 * `docker exec`, `limactl shell`, `wsl.exe`, `devcontainer exec`. No port is opened, and no token is needed.
 *
 * It runs on Node.js and Bun, on any system. All times are in milliseconds.
 *
 * @packageDocumentation
 */
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { milliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { abortSignal } from '../schema/signals.js'
import { callback, logger } from '../schema/values.js'
import type { SandboxClient } from './client.js'
import type { EnvChanges, Logger } from './index.js'

export type { OptionError, SandboxError } from './index.js'

/** Options of {@link connectProgram}. */
export interface ConnectProgramOptions {
  /** Directory on this machine in which the program runs. Default: `process.cwd()`. */
  cwd?: string | URL
  /**
   * Variables of the program, merged over those of this process; undefined removes a variable. Whether the program passes
   * them on is its own matter. Default: none.
   */
  env?: EnvChanges
  /** Milliseconds in which the server must answer, 0 to 2147483647; 0 = no limit. Default: 30000. */
  connectTimeout?: number
  /**
   * Milliseconds in which the server must begin to respond to a request that neither streams nor waits, 0 to 2147483647;
   * 0 = no limit. See the option of `SandboxClient`. Default: 30000.
   */
  requestTimeout?: number
  /** Ends the program and rejects the call, until the server has answered. Default: none. */
  signal?: AbortSignal
  /** Receives what the program prints on standard error, as long as it runs. Default: none. */
  onStderr?: (data: string) => void
  /** Receives callback errors that cannot be reported otherwise. Default: none. */
  logger?: Logger
}

export const connectProgramOptions = table<ConnectProgramOptions>()({
  cwd: directory,
  env,
  connectTimeout: { ...milliseconds, default: 30_000 },
  requestTimeout: { ...milliseconds, default: 30_000 },
  signal: abortSignal,
  onStderr: callback,
  logger,
})

/**
 * A sandbox that lives as long as its program. When this process, the program or the server ends, in whatever way, the
 * server ends with all commands, processes and sessions. Durable jobs continue.
 *
 * If the program ends early, pending and later calls reject with SANDBOX_LOST. The message has the end of the program and
 * the last of what it printed on standard error. The program does not keep this process alive between two calls.
 */
export interface ProgramClient extends SandboxClient {
  /**
   * Closes the input of the program, by which the server ends with everything in it. Resolves when the program has ended;
   * it is killed after 5 s. Never rejects. Later calls reject with SANDBOX_DESTROYED. Idempotent.
   */
  close(): Promise<void>
  /** Kills the processes and deletes the sessions of the sandbox like that of `SandboxClient`, then does the same. */
  destroy(): Promise<void>
}

/**
 * Starts a program that runs `nacre serve --stdio`, and connects to that server over its standard input and output.
 *
 * `argv` is the program and its arguments; no shell parses them. What the program prints on standard output before the
 * server answers, like the banner of a login, is skipped, up to 64 KiB. The program has no terminal, so it cannot ask for a
 * password, and Ctrl-C does not reach it.
 *
 * Rejects with SPAWN_FAILED if the program cannot be started, and with CONNECTION_FAILED if it ends, does not answer in
 * time or prints too much before the server answers. The message has the last of what it printed. Then the program has
 * ended. Rejects with OptionError for bad arguments.
 */
export declare function connectProgram(
  argv: readonly string[],
  options?: ConnectProgramOptions,
): Promise<ProgramClient>
