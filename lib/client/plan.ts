/**
 * Checked options of commands and processes as the requests that they become. What is not given is left to the server,
 * whose sandbox has defaults of its own.
 */
import type { Encoding } from '../../index.js'
import { areLive, callbacksOf } from '../callbacks.js'
import { type LineForm, lineForm } from '../line-arrays.js'
import { type CheckedCommand, readCommand, showCommand } from '../options/command.js'
import { DEFAULT_SESSION, type ExecPlan } from '../options/exec.js'
import { readArgument, readOptions } from '../options/read.js'
import { encodeOptions } from '../protocol/codec.js'
import { execOptions, sessionExecOptions } from '../protocol/exec-options.js'
import { encodeCommand } from '../protocol/json.js'
import type { OptionValues } from '../protocol/option.js'
import { processOptions, sessionProcessOptions } from '../protocol/process-options.js'
import { isVerboseByDefault } from '../verbose.js'
import { MOST_BYTES_AT_ONCE } from './wire.js'

export interface RemoteExec {
  body: object
  command: string
  /** What is read on this side of the connection. */
  input: AsyncIterable<unknown> | undefined
  signal: AbortSignal | undefined
  encoding: Encoding
  /** What a stream needs to know. */
  request: { sessionId: string; encoding: Encoding }
  callbacks: ExecPlan['callbacks']
  lines: LineForm | undefined
  verbose: boolean
  /** Something is to happen while it runs, and not only at its end. */
  isLive: boolean
}

type ExecValues = OptionValues<typeof execOptions>

/** Checks the arguments of `exec` and `execStream`; with a session those of its own. Throws OptionError. */
export function planRemoteExec(
  command: unknown,
  options: unknown,
  { sessionId, owner, isStream }: { sessionId: string | undefined; owner: string; isStream: boolean },
): RemoteExec {
  const checked = readArgument(readCommand, command, 'command')
  const values: ExecValues =
    sessionId === undefined
      ? readOptions(execOptions, options, owner)
      : readOptions(sessionExecOptions, options, `session.${owner}`)
  const { signal, encoding = 'utf8' } = values
  const lines = lineForm(values)
  const callbacks = callbacksOf(values)
  const session = sessionId ?? values.sessionId ?? DEFAULT_SESSION
  const { inline, source } = divideInput(values.input)
  const isLive = isStream || source !== undefined || signal !== undefined || areLive(callbacks)
  const body = {
    command: encodeCommand(checked),
    sessionId: session,
    ...encodeOptions(execOptions, { ...values, input: inline }),
    wholeResult: isLive && !isStream ? true : undefined,
    // The text of lines is whole.
    stripFinalNewline: lines === undefined ? values.stripFinalNewline : undefined,
    // Output on its way is bytes: characters are put together where it arrives.
    encoding: isLive ? 'buffer' : encoding,
    openInput: source === undefined ? undefined : true,
  }
  return {
    ...{ body, command: showCommand(checked), input: source, signal, encoding, isLive },
    request: { sessionId: session, encoding },
    callbacks,
    lines,
    verbose: values.verbose ?? isVerboseByDefault(),
  }
}

type ProcessValues = OptionValues<typeof processOptions>

export interface RemoteProcessPlan {
  body: object
  input: AsyncIterable<unknown> | undefined
  signal: AbortSignal | undefined
  callbacks: Pick<ProcessValues, 'onStart' | 'onOutput' | 'onExit' | 'onError'>
}

/** Checks the arguments of `startProcess`; with a session those of its own. Throws OptionError. */
export function planRemoteProcess(
  command: unknown,
  options: unknown,
  sessionId: string | undefined,
): RemoteProcessPlan {
  const checked = readArgument(readCommand, command, 'command')
  const values: ProcessValues =
    sessionId === undefined
      ? readOptions(processOptions, options, 'startProcess')
      : readOptions(sessionProcessOptions, options, 'session.startProcess')
  return remoteProcessPlan(checked, values, sessionId ?? values.sessionId ?? DEFAULT_SESSION)
}

export function remoteProcessPlan(
  command: CheckedCommand,
  values: ProcessValues,
  sessionId: string,
): RemoteProcessPlan {
  const { signal, onStart, onOutput, onExit, onError, pty } = values
  const { inline, source } = values.input === 'pipe' ? {} : divideInput(values.input)
  const isOpen =
    values.input === 'pipe' || source !== undefined || (pty !== undefined && inline === undefined)
  const body = {
    command: encodeCommand(command),
    sessionId,
    ...encodeOptions(processOptions, { ...values, input: inline }),
    openInput: isOpen ? true : undefined,
  }
  return { body, input: source, signal, callbacks: { onStart, onOutput, onExit, onError } }
}

/** Input that is too large for one request is sent while the command runs. */
function divideInput(input: Uint8Array | AsyncIterable<unknown> | undefined): {
  inline?: Uint8Array | undefined
  source?: AsyncIterable<unknown> | undefined
} {
  if (!(input instanceof Uint8Array)) return { source: input }
  return input.length > MOST_BYTES_AT_ONCE ? { source: whole(input) } : { inline: input }
}

async function* whole(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}
