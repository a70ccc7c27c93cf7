/** Translates a command to the request that crosses the boundary, with the sandbox's defaults. */

import type { NativeExecExtras } from '../../../boundary/index.js'
import { sessionExecOptions } from '../../../calls/exec.js'
import { areLive, type CommandTrace, type ExecRequest } from '../../../requests/exec.js'
import type { CheckedInput } from '../../../schema/command.js'
import type { StartDefaults } from './defaults.js'
import { planDetached } from './process.js'

/** Shell text or, in `extras`, an argument list, and everything that applies to this one command. */
export interface NativeExec {
  text: string | undefined
  sessionId: string
  /** 0 = none. */
  timeout: number
  killSignal: number
  forceKillAfterDelay: number
  /** Bytes kept per stream. */
  maxBuffer: number
  encoding: 'utf8' | 'buffer'
  extras: NativeExecExtras | undefined
}

/** One exec: the request, and what happens on this side of the boundary. */
export interface ExecPlan {
  request: NativeExec
  /** The command as the result shows it. */
  command: string
  input: CheckedInput | 'pipe' | undefined
  signal: AbortSignal | undefined
  stripFinalNewline: boolean
  check: boolean
  /** Milliseconds until a running command becomes a process. */
  detachAfter: number | undefined
  trace: CommandTrace | undefined
}

/** `live`: the events that the run sends. */
export function planExec(
  exec: ExecRequest,
  defaults: StartDefaults,
  live: Pick<NativeExecExtras, 'events' | 'process' | 'window'> = {
    events: areLive(exec.callbacks),
    process: canBeProcess(exec.values) ? planDetached(exec.shown, undefined) : undefined,
  },
): ExecPlan {
  const { command, sessionId, encoding, values } = exec
  const { input, signal } = values
  const env = defaults.secrets.coverEnv(values.env)
  const { stripFinalNewline, check } = sessionExecOptions
  const request: NativeExec = {
    sessionId,
    text: command.text,
    timeout: values.timeout ?? defaults.timeout,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    maxBuffer:
      values.maxBuffer ?? Math.min(defaults.maxBuffer, exec.bounds?.maxBuffer ?? Number.POSITIVE_INFINITY),
    encoding,
    extras: unlessPlain({
      argv: command.argv,
      cwd: values.cwd,
      envNames: env?.names,
      envValues: env?.values,
      input: inputKind(input),
      inputBytes: input instanceof Uint8Array ? input : undefined,
      mergeOutput: values.mergeOutput,
      pty: values.pty,
      outputLimit: values.outputLimit,
      budgetCpu: values.budget?.cpuMs,
      traced: exec.trace?.hasRequests,
      start: (exec.trace ?? values.detachAfter) === undefined ? undefined : true,
      ...live,
    }),
  }
  return {
    request,
    command: exec.shown,
    input,
    signal,
    stripFinalNewline: values.stripFinalNewline ?? stripFinalNewline.default,
    check: values.check ?? check.default,
    detachAfter: values.detachAfter,
    trace: exec.trace,
  }
}

/** Whether the engine needs the process that the command can become. What watches a budget finds the command by it. */
function canBeProcess({ detachAfter, budget }: ExecRequest['values']): boolean {
  return detachAfter !== undefined || budget !== undefined
}

/** Plans a run whose output is read while it runs. */
export function planStream(exec: ExecRequest, defaults: StartDefaults): ExecPlan {
  const maxBuffer = exec.wholeResult ? defaults.maxBuffer : defaults.streamMaxBuffer
  const process = planDetached(exec.shown, exec.values.logLimit)
  return planExec(exec, { ...defaults, maxBuffer }, { events: true, window: exec.bounds?.window, process })
}

/** Undefined for most commands, which have none of these options. `Object.values` would be slower. */
function unlessPlain(extras: NativeExecExtras): NativeExecExtras | undefined {
  for (const name in extras) {
    const value = extras[name as keyof NativeExecExtras]
    if (value !== undefined && value !== false && value !== 'none') return extras
  }
  return undefined
}

function inputKind(input: ExecPlan['input']): NativeExecExtras['input'] {
  if (input === undefined) return 'none'
  return input instanceof Uint8Array ? 'bytes' : 'stream'
}
