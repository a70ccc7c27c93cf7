/**
 * The arguments of exec and execStream, checked. What is not given stays away: the backend's defaults hold.
 */
import { execOptions, sessionExecOptions } from '../protocol/exec-options.js'
import type { OptionValues } from '../protocol/option.js'
import type { Encoding } from '../public/index.js'
import { callbacksOf, type ExecCallbacks } from '../run/callbacks.js'
import { isVerboseByDefault } from '../run/verbose.js'
import { type CheckedCommand, readCommand, showCommand } from './command.js'
import { readArgument, readOptions } from './read.js'

/** The session that exists by itself. */
export const DEFAULT_SESSION = execOptions.sessionId.default

/** A command in the foreground of a session. */
export interface ExecRequest {
  command: CheckedCommand
  /** The command as it is shown in the result. */
  shown: string
  sessionId: string
  encoding: Encoding
  callbacks: ExecCallbacks
  verbose: boolean
  values: OptionValues<typeof sessionExecOptions>
}

/** Checks the arguments of a call; in a session, the session is given. Throws OptionError. */
export function readExec(
  command: unknown,
  options: unknown,
  owner: 'exec' | 'execStream',
  session?: string,
): ExecRequest {
  const checked = readArgument(readCommand, command, 'command')
  const { sessionId = DEFAULT_SESSION, ...values }: OptionValues<typeof execOptions> =
    session === undefined
      ? readOptions(execOptions, options, owner)
      : readOptions(sessionExecOptions, options, `session.${owner}`)
  return {
    command: checked,
    shown: showCommand(checked),
    sessionId: session ?? sessionId,
    encoding: values.encoding ?? sessionExecOptions.encoding.default,
    callbacks: callbacksOf(values),
    verbose: values.verbose ?? isVerboseByDefault(),
    values,
  }
}
