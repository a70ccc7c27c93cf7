/**
 * The arguments of exec and execStream, checked. What is not given stays away: the backend's defaults hold.
 */

import { type CheckedCommand, readCommand, showCommand } from '../options/command.js'
import type { OptionValues } from '../options/option.js'
import { readArgument, readOptions } from '../options/read.js'
import { execOptions, sessionExecOptions } from '../protocol/exec-options.js'
import type { Encoding } from '../public/index.js'

/** The session that exists by itself. */
export const DEFAULT_SESSION = execOptions.sessionId.default

type Values = OptionValues<typeof sessionExecOptions>

/** The callbacks of one exec. */
export type ExecCallbacks = Pick<
  Values,
  'onStart' | 'onOutput' | 'onStdout' | 'onStderr' | 'onLine' | 'onComplete' | 'onError'
>

/** The callbacks among checked options. */
function callbacksOf(values: Values): ExecCallbacks {
  const { onStart, onOutput, onStdout, onStderr, onLine, onComplete, onError } = values
  return { onStart, onOutput, onStdout, onStderr, onLine, onComplete, onError }
}

/** Whether one of them is called while the command runs. */
export function areLive({ onStart, onOutput, onStdout, onStderr, onLine }: ExecCallbacks): boolean {
  return (onStart ?? onOutput ?? onStdout ?? onStderr ?? onLine) !== undefined
}

/** A command in the foreground of a session. */
export interface ExecRequest {
  command: CheckedCommand
  /** The command as it is shown in the result. */
  shown: string
  sessionId: string
  encoding: Encoding
  callbacks: ExecCallbacks
  verbose: boolean
  values: Values
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

/** Runs wherever JavaScript does. */
function isVerboseByDefault(): boolean {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }
  return process?.env?.NACRE_DEBUG === '1'
}
