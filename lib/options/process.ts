/**
 * The options of startProcess, and how they become the request that crosses the boundary.
 */
import type { NativeProcessStart } from '../boundary'
import { type CheckedCommand, readCommand, showCommand } from './command'
import { envChanges } from './env'
import { DEFAULT_SESSION, type ExecDefaults } from './exec'
import { identifier } from './ids'
import { type CheckedInput, commandInput } from './input'
import { resourceLimits, terminal } from './limits'
import { byteCount, milliseconds } from './numbers'
import { directory } from './paths'
import { type OptionValues, readArgument, readOptions } from './read'
import { abortSignal, processSignal } from './signals'
import { callback, flag } from './values'

/** 64 MiB. */
const DEFAULT_LOG_LIMIT_BYTES = 64 * 1024 * 1024

/** Option names of `session.startProcess`. */
export const sessionProcessOptions = {
  processId: identifier,
  cwd: directory,
  env: envChanges,
  timeout: milliseconds,
  signal: abortSignal,
  killSignal: processSignal,
  forceKillAfterDelay: milliseconds,
  input: processInput,
  logLimit: byteCount,
  autoCleanup: flag,
  limits: resourceLimits,
  pty: terminal,
  onStart: callback,
  onOutput: callback,
  onExit: callback,
  onError: callback,
}

/** Option names of `sandbox.startProcess`. */
export const processOptions = { ...sessionProcessOptions, sessionId: identifier }

type Values = OptionValues<typeof sessionProcessOptions>

/** Everything that a process needs to start, checked. */
export interface ProcessPlan {
  request: NativeProcessStart
  /** Where its input comes from, when it does not cross as bytes. */
  source: AsyncIterable<unknown> | undefined
  signal: AbortSignal | undefined
  callbacks: Pick<Values, 'onStart' | 'onOutput' | 'onExit' | 'onError'>
}

/** Checks the arguments of `sandbox.startProcess`. Throws OptionError. */
export function planProcess(command: unknown, options: unknown, defaults: ExecDefaults): ProcessPlan {
  const checked = readArgument(readCommand, command, 'command')
  const values = readOptions(processOptions, options, 'startProcess')
  return processPlan(checked, values, values.sessionId ?? DEFAULT_SESSION, defaults)
}

/** Checks the arguments of `session.startProcess`, where the session is given. Throws OptionError. */
export function planSessionProcess(
  sessionId: string,
  command: unknown,
  options: unknown,
  defaults: ExecDefaults,
): ProcessPlan {
  const checked = readArgument(readCommand, command, 'command')
  const values = readOptions(sessionProcessOptions, options, 'session.startProcess')
  return processPlan(checked, values, sessionId, defaults)
}

/** The plan of a checked command with checked options. A timeout of the sandbox is for commands, not for processes. */
export function processPlan(
  command: CheckedCommand,
  values: Values,
  sessionId: string,
  defaults: ExecDefaults,
): ProcessPlan {
  const { input, signal, onStart, onOutput, onExit, onError } = values
  const bytes = input instanceof Uint8Array ? input : undefined
  const request: NativeProcessStart = {
    processId: values.processId ?? freshProcessId(),
    sessionId,
    ...command,
    command: showCommand(command),
    cwd: values.cwd,
    envNames: values.env?.names,
    envValues: values.env?.values,
    timeout: values.timeout ?? 0,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    input:
      bytes === undefined ? (input === undefined && values.pty === undefined ? 'none' : 'open') : 'bytes',
    inputBytes: bytes,
    logLimit: values.logLimit ?? DEFAULT_LOG_LIMIT_BYTES,
    pty: values.pty,
    limits: values.limits,
    autoCleanup: values.autoCleanup ?? true,
  }
  const source =
    typeof input === 'object' && bytes === undefined ? (input as AsyncIterable<unknown>) : undefined
  return { request, source, signal, callbacks: { onStart, onOutput, onExit, onError } }
}

/** Input of a command, or 'pipe': it stays open, for `write`. */
export function processInput(value: unknown, name: string): CheckedInput | 'pipe' {
  return value === 'pipe' ? value : commandInput(value, name)
}

/** Short, since it is typed and read; 40 bits, so that thousands do not collide. */
export function freshProcessId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5))
  return `proc-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
