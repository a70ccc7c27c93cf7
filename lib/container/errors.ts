/**
 * The errors of the drop-in session: two classes that a container can replace, since it checks them with instanceof, and
 * the translation of nacre's errors.
 */

import { SandboxError } from '../base/errors.js'
import type { SessionErrors } from '../calls/container.js'
import { readOptions } from '../schema/read.js'
import { callback } from '../schema/values.js'

/** The session's shell has ended, by `exit` or by a signal. `exitCode` is null when it is unknown. */
export class ShellTerminatedError extends Error {
  static {
    Object.defineProperty(ShellTerminatedError.prototype, 'name', { value: 'ShellTerminatedError' })
  }

  readonly sessionId: string
  readonly exitCode: number | null

  constructor(sessionId: string, exitCode: number | null) {
    super(`the shell of session '${sessionId}' has ended (exit code: ${exitCode ?? 'unknown'})`)
    this.sessionId = sessionId
    this.exitCode = exitCode
  }
}

/** The session was destroyed while the command ran. */
export class SessionDestroyedError extends Error {
  static {
    Object.defineProperty(SessionDestroyedError.prototype, 'name', { value: 'SessionDestroyedError' })
  }

  readonly sessionId: string

  constructor(sessionId: string) {
    super(`session '${sessionId}' was destroyed while the command ran`)
    this.sessionId = sessionId
  }
}

/** The error classes to use: the given ones, and nacre's own for the rest. Throws OptionError. */
export function chooseErrors(errors: Partial<SessionErrors> | undefined): SessionErrors {
  const table = { ShellTerminatedError: callback, SessionDestroyedError: callback }
  const given = readOptions(table, errors, 'createSessionClass') as Partial<SessionErrors>
  return { ShellTerminatedError, SessionDestroyedError, ...given }
}

/** The message that containers expect from a call that comes too early or too late. */
export function notReady(sessionId: string, destroyed: boolean): Error {
  const code = destroyed ? 'SESSION_DESTROYED' : 'SESSION_TERMINATED'
  return new SandboxError(code, `Session '${sessionId}' is not ready or shell has died`)
}

/** The message that containers expect after a timeout. */
export function timedOut(timeoutMs: number, cause?: SandboxError): Error {
  const { result } = cause ?? {}
  return new SandboxError('COMMAND_TIMEOUT', `Command timeout after ${timeoutMs}ms`, { cause, result })
}
