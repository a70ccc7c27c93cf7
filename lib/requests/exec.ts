/**
 * The checked arguments of exec and execStream. Options not given stay undefined: the backend has the defaults.
 */

import { type CallSite, callSite } from '../base/call-site.js'
import { invalidOption } from '../base/errors.js'
import { ownOnly } from '../base/own.js'
import { execOptions, sessionExecOptions } from '../calls/exec.js'
import type { Encoding } from '../calls/index.js'
import { type CheckedCommand, readCommand, refuseArguments, showCommand } from '../schema/command.js'
import type { OptionValues } from '../schema/kind.js'
import { readArgument, readOptions } from '../schema/read.js'

/** The session that always exists. */
export const DEFAULT_SESSION = execOptions.sessionId.default

type Values = OptionValues<typeof sessionExecOptions>

/** The callbacks of one exec. */
export type ExecCallbacks = Pick<
  Values,
  'onStart' | 'onOutput' | 'onStdout' | 'onStderr' | 'onLine' | 'onComplete' | 'onError'
>

/** Whether any of them is called while the command runs. */
export function areLive({ onStart, onOutput, onStdout, onStderr, onLine }: ExecCallbacks): boolean {
  return (onStart ?? onOutput ?? onStdout ?? onStderr ?? onLine) !== undefined
}

/** `bare`: lines without their `\n` or `\r\n`. `whole`: with them. */
export type LineForm = 'bare' | 'whole'

/** The form of lines that the options ask for; undefined for output as one text. Throws OptionError. */
function lineForm({ lines = false, encoding, stripFinalNewline }: Values): LineForm | undefined {
  if (!lines) return undefined
  if (encoding === 'buffer')
    throw invalidOption("lines must not be true with encoding 'buffer': only text has lines")
  return stripFinalNewline === false ? 'whole' : 'bare'
}

/** Limits on output for a reader at the other end of a connection. */
export interface OutputBounds {
  /** Maximum bytes kept of each stream in the result, unless the caller sets maxBuffer. */
  maxBuffer: number
  /** Pieces of output that may wait for the reader. */
  window?: number
  /** Whether output events have bytes, whatever the encoding. */
  byteEvents?: boolean | undefined
}

/** Follows a command that is traced. */
export interface CommandTrace {
  /** Whether its requests are traced, too. */
  hasRequests: boolean
  /** Called before any of its events, with the id of its call. */
  begin(id: number): void
  /** Called at the end of the call, with the pid of the shell if the command began. */
  end(pid: number | undefined): void
}

/** A command in the foreground of a session. */
export interface ExecRequest {
  command: CheckedCommand
  /** The command as the result shows it. */
  shown: string
  sessionId: string
  encoding: Encoding
  callbacks: ExecCallbacks
  verbose: boolean
  /** Whether a stream's result keeps as much output as a result of exec. */
  wholeResult: boolean
  bounds: OutputBounds | undefined
  /** How the result shows lines; undefined: as one text. */
  lines: LineForm | undefined
  /** Where the call was made. */
  site: CallSite
  trace?: CommandTrace
  values: Values
  /** The caller's hold on the session. */
  hold?: string | undefined
}

/** Checks the arguments of a call; in a session, `session` is given. Throws OptionError. */
export function readExec(
  command: unknown,
  options: unknown,
  owner: 'exec' | 'execStream' | '$',
  session?: string,
): ExecRequest {
  const checked = readArgument(readCommand, command, 'command')
  refuseArguments(options, session === undefined ? owner : `session.${owner}`)
  const values: OptionValues<typeof execOptions> =
    session === undefined
      ? readOptions(execOptions, options, owner)
      : readOptions(sessionExecOptions, options, `session.${owner}`)
  const { sessionId = DEFAULT_SESSION } = values
  // The request has it beside the others.
  delete values.sessionId
  if (values.pty !== undefined) values.input ??= owner === 'execStream' ? 'pipe' : new Uint8Array()
  if (values.input === 'pipe' && owner === 'exec') {
    throw invalidOption(
      "input must not be 'pipe' for exec, which has nothing to write with: use execStream and its write, or pass bytes to send the text",
    )
  }
  if (owner === 'exec' && values.logLimit !== undefined) {
    throw invalidOption('logLimit needs execStream: the result of exec has all of its output')
  }
  if (
    values.detachAfter !== undefined &&
    typeof values.input === 'object' &&
    !(values.input instanceof Uint8Array)
  ) {
    throw invalidOption(
      "input must not be an iterable with detachAfter, since its call ends before the command: use execStream with input: 'pipe', and detach()",
    )
  }
  const lines = lineForm(values)
  return {
    command: checked,
    shown: showCommand(checked),
    sessionId: session ?? sessionId,
    encoding: values.encoding ?? sessionExecOptions.encoding.default,
    callbacks: values,
    verbose: values.verbose ?? isVerboseByDefault,
    wholeResult: owner !== 'execStream',
    bounds: undefined,
    lines,
    site: callSite(readExec),
    // Lines are split from the whole text.
    values: lines === undefined ? values : ownOnly({ ...values, stripFinalNewline: undefined }),
  }
}

const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } }

/**
 * Whether calls without the option `verbose` are verbose. Runs wherever JavaScript does. Read once: a look into the
 * environment takes longer than most of a short command.
 */
export const isVerboseByDefault = process?.env?.NACRE_DEBUG === '1'
