/**
 * The checked arguments of startProcess. Options not given stay undefined: the backend has the defaults.
 */

import { type CallSite, callSite } from '../base/call-site.js'
import { ownOnly } from '../base/own.js'
import { processOptions, sessionProcessOptions } from '../calls/process.js'
import { type CheckedCommand, readCommand, refuseArguments, showCommand } from '../schema/command.js'
import type { OptionValues } from '../schema/kind.js'
import { readArgument, readOptions } from '../schema/read.js'
import { DEFAULT_SESSION, isVerboseByDefault } from './exec.js'

type Values = OptionValues<typeof sessionProcessOptions>

/** A background process. */
export interface ProcessRequest {
  command: CheckedCommand
  /** The command as displayed. */
  shown: string
  sessionId: string
  callbacks: Pick<Values, 'onStart' | 'onOutput' | 'onStdout' | 'onStderr' | 'onLine' | 'onExit' | 'onError'>
  verbose: boolean
  /** Where the call was made. */
  site: CallSite
  values: Values
  /** The caller's hold on the session. */
  hold?: string | undefined
  /** Bytes of output that may wait for a reader that reports its progress; beyond that, the process blocks. */
  window?: number
}

/** Checks the arguments of a call; in a session, `session` is given. Throws OptionError. */
export function readProcess(command: unknown, options: unknown, session?: string): ProcessRequest {
  const checked = readArgument(readCommand, command, 'command')
  refuseArguments(options, session === undefined ? 'startProcess' : 'session.startProcess')
  const values: OptionValues<typeof processOptions> =
    session === undefined
      ? readOptions(processOptions, options, 'startProcess')
      : readOptions(sessionProcessOptions, options, 'session.startProcess')
  return processRequest(checked, values, session)
}

export function processRequest(
  command: CheckedCommand,
  { sessionId = DEFAULT_SESSION, ...rest }: OptionValues<typeof processOptions>,
  session = sessionId,
): ProcessRequest {
  const values = ownOnly(rest)
  return {
    command,
    shown: showCommand(command),
    sessionId: session,
    callbacks: values,
    verbose: values.verbose ?? isVerboseByDefault,
    site: callSite(processRequest),
    values,
  }
}
