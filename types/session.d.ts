/// <reference types="node" />

/** Sessions. */

import type { Command, Encoding, EnvChanges, ShellTag } from './command.js'
import type { ExecResult, ExecStream, SessionExecOptions } from './exec.js'
import type { Process, SessionProcessOptions } from './process.js'
import type { Sandbox } from './sandbox.js'

/** Options of {@link Sandbox.createSession}. */
export interface SessionOptions {
  /** 1 to 128 characters of `A-Z a-z 0-9 . _ -`, not '.' or '..'. Default: a random UUID. */
  id?: string
  /** Directory in which the session starts; a relative path is resolved against the sandbox's. Default: the sandbox's. */
  cwd?: string | URL
  /** Environment changes over the sandbox's. */
  env?: EnvChanges
  /** Whether `exit 3` ends the command and not the session. Default: the sandbox's. */
  surviveExit?: boolean
}

/** A persistent bash session. Its directory, variables, functions, options and traps stay from command to command. */
export interface Session {
  readonly id: string
  /** Runs a command in this session. See {@link Sandbox.exec}. */
  exec<E extends Encoding = 'utf8'>(command: Command, options?: SessionExecOptions<E>): Promise<ExecResult<E>>
  /** {@link Session.exec} as a tagged template, with values that are quoted safely. */
  readonly $: ShellTag<SessionExecOptions, ExecResult>
  /** Runs a command in this session, as events. See {@link Sandbox.execStream}. */
  execStream<E extends Encoding = 'utf8'>(command: Command, options?: SessionExecOptions<E>): ExecStream<E>
  /** Starts a background process from this session. See {@link Sandbox.startProcess}. */
  startProcess(command: Command, options?: SessionProcessOptions): Promise<Process>
  /** Sets and unsets exported variables of this session. See {@link Sandbox.setEnvVars}. */
  setEnvVars(vars: EnvChanges): Promise<void>
  /** Deletes this session; nothing happens when it is gone already. */
  [Symbol.asyncDispose](): Promise<void>
}
