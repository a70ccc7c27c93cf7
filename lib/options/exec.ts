/**
 * The options of exec and execStream, and how they become the request that crosses the boundary.
 */
import type { NativeExec } from '../boundary/index.js'
import { areLive, callbacksOf, type ExecCallbacks } from '../callbacks.js'
import { type LineForm, lineForm } from '../line-arrays.js'
import { execOptions, sessionExecOptions } from '../protocol/exec-options.js'
import type { OptionValues } from '../protocol/option.js'
import { isVerboseByDefault } from '../verbose.js'
import { type CheckedCommand, readCommand, showCommand } from './command.js'
import type { CheckedInput } from './input.js'
import { readArgument, readOptions } from './read.js'

/** The session that exists by itself. */
export const DEFAULT_SESSION = execOptions.sessionId.default

/** What a sandbox sets for all its commands. */
export interface ExecDefaults {
  timeout: number
  maxBuffer: number
  /** The same for execStream. */
  streamMaxBuffer: number
  killSignal: number
  forceKillAfterDelay: number
}

/** One exec, checked: the request, and what happens on this side of the boundary. */
export interface ExecPlan {
  request: NativeExec
  /** The command as it is shown in the result. */
  command: string
  input: CheckedInput | undefined
  signal: AbortSignal | undefined
  stripFinalNewline: boolean
  lines: LineForm | undefined
  verbose: boolean
  check: boolean
  callbacks: ExecCallbacks
}

/** Checks the arguments of `sandbox.exec`. Throws OptionError. */
export function planExec(command: unknown, options: unknown, defaults: ExecDefaults): ExecPlan {
  const checked = readArgument(readCommand, command, 'command')
  const values = readOptions(execOptions, options, 'exec')
  return plan(checked, values, values.sessionId ?? DEFAULT_SESSION, defaults)
}

/** Checks the arguments of `session.exec`, where the session is given. Throws OptionError. */
export function planSessionExec(
  sessionId: string,
  command: unknown,
  options: unknown,
  defaults: ExecDefaults,
): ExecPlan {
  const checked = readArgument(readCommand, command, 'command')
  return plan(checked, readOptions(sessionExecOptions, options, 'session.exec'), sessionId, defaults)
}

/** Checks the arguments of `sandbox.execStream`. Throws OptionError. */
export function planExecStream(command: unknown, options: unknown, defaults: ExecDefaults): ExecPlan {
  const checked = readArgument(readCommand, command, 'command')
  const values = readOptions(execOptions, options, 'execStream')
  return streamed(plan(checked, values, values.sessionId ?? DEFAULT_SESSION, ofStreams(defaults)))
}

/** Bounds of a stream whose reader is at the other end of a connection. */
export interface ConnectionBounds {
  /** Pieces of output that wait for it. */
  window: number
  /** Most bytes of each stream in the result, unless the caller says how many; undefined: as many as exec keeps. */
  maxBuffer: number | undefined
}

/** Checks the arguments of `sandbox.execStream` for such a reader. Throws OptionError. */
export function planConnectionStream(
  command: unknown,
  options: unknown,
  defaults: ExecDefaults,
  { window, maxBuffer }: ConnectionBounds,
): ExecPlan {
  const streamMaxBuffer =
    maxBuffer === undefined ? defaults.maxBuffer : Math.min(defaults.streamMaxBuffer, maxBuffer)
  const planned = planExecStream(command, options, { ...defaults, streamMaxBuffer })
  return { ...planned, request: { ...planned.request, window } }
}

/** Checks the arguments of `session.execStream`. Throws OptionError. */
export function planSessionExecStream(
  sessionId: string,
  command: unknown,
  options: unknown,
  defaults: ExecDefaults,
): ExecPlan {
  const checked = readArgument(readCommand, command, 'command')
  const values = readOptions(sessionExecOptions, options, 'session.execStream')
  return streamed(plan(checked, values, sessionId, ofStreams(defaults)))
}

function ofStreams(defaults: ExecDefaults): ExecDefaults {
  return { ...defaults, maxBuffer: defaults.streamMaxBuffer }
}

/** The same with its events wanted. */
function streamed(plan: ExecPlan): ExecPlan {
  return { ...plan, request: { ...plan.request, events: true } }
}

function plan(
  command: CheckedCommand,
  values: OptionValues<typeof sessionExecOptions>,
  sessionId: string,
  defaults: ExecDefaults,
): ExecPlan {
  const { input, signal } = values
  const lines = lineForm(values)
  const { stripFinalNewline = sessionExecOptions.stripFinalNewline.default } = values
  const { check = sessionExecOptions.check.default, verbose = isVerboseByDefault() } = values
  const callbacks = callbacksOf(values)
  const request: NativeExec = {
    sessionId,
    ...command,
    cwd: values.cwd,
    envNames: values.env?.names,
    envValues: values.env?.values,
    timeout: values.timeout ?? defaults.timeout,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    maxBuffer: values.maxBuffer ?? defaults.maxBuffer,
    encoding: values.encoding ?? sessionExecOptions.encoding.default,
    input: inputKind(input),
    mergeOutput: values.mergeOutput,
    inputBytes: input instanceof Uint8Array ? input : undefined,
    events: areLive(callbacks),
  }
  return {
    request,
    command: showCommand(command),
    input,
    signal,
    // The text of lines is whole.
    stripFinalNewline: stripFinalNewline && lines === undefined,
    lines,
    verbose,
    check,
    callbacks,
  }
}

function inputKind(input: CheckedInput | undefined): NativeExec['input'] {
  if (input === undefined) return 'none'
  return input instanceof Uint8Array ? 'bytes' : 'stream'
}
