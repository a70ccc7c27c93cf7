/**
 * The options of startProcess, and how they become the request that crosses the boundary.
 */
import type { NativeProcessStart } from '../backends/native/boundary/index.js'
import type { OptionValues } from '../protocol/option.js'
import { processOptions, sessionProcessOptions } from '../protocol/process-options.js'
import { type CheckedCommand, readCommand, showCommand } from './command.js'
import { DEFAULT_SESSION, type ExecDefaults } from './exec.js'
import { readArgument, readOptions } from './read.js'

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
    timeout: values.timeout ?? processOptions.timeout.default,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    input:
      bytes === undefined ? (input === undefined && values.pty === undefined ? 'none' : 'open') : 'bytes',
    inputBytes: bytes,
    logLimit: values.logLimit ?? processOptions.logLimit.default,
    pty: values.pty,
    limits: values.limits,
    autoCleanup: values.autoCleanup ?? processOptions.autoCleanup.default,
  }
  const source =
    typeof input === 'object' && bytes === undefined ? (input as AsyncIterable<unknown>) : undefined
  return { request, source, signal, callbacks: { onStart, onOutput, onExit, onError } }
}

/** Short, since it is typed and read; 40 bits, so that thousands do not collide. */
export function freshProcessId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5))
  return `proc-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
