/** Translates a command to the request that crosses the boundary, with the sandbox's defaults. */

import type { NativeExec } from '../../../boundary/index.js'
import { sessionExecOptions } from '../../../calls/exec.js'
import { areLive, type ExecRequest } from '../../../requests/exec.js'
import type { CheckedInput } from '../../../schema/command.js'

/** A sandbox's defaults for all of its commands. */
export interface ExecDefaults {
  timeout: number
  maxBuffer: number
  /** As `maxBuffer`, for execStream. */
  streamMaxBuffer: number
  killSignal: number
  forceKillAfterDelay: number
}

/** One exec: the request, and what happens on this side of the boundary. */
export interface ExecPlan {
  request: NativeExec
  /** The command as the result shows it. */
  command: string
  input: CheckedInput | undefined
  signal: AbortSignal | undefined
  stripFinalNewline: boolean
  check: boolean
  onPid: ExecRequest['onPid']
}

export function planExec(exec: ExecRequest, defaults: ExecDefaults): ExecPlan {
  const { command, sessionId, encoding, values } = exec
  const { input, signal } = values
  const { stripFinalNewline, check } = sessionExecOptions
  const request: NativeExec = {
    sessionId,
    ...command,
    cwd: values.cwd,
    envNames: values.env?.names,
    envValues: values.env?.values,
    timeout: values.timeout ?? defaults.timeout,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    maxBuffer:
      values.maxBuffer ?? Math.min(defaults.maxBuffer, exec.bounds?.maxBuffer ?? Number.POSITIVE_INFINITY),
    encoding,
    input: inputKind(input),
    mergeOutput: values.mergeOutput,
    outputLimit: values.outputLimit,
    inputBytes: input instanceof Uint8Array ? input : undefined,
    ...(exec.onPid && { start: true }),
    events: areLive(exec.callbacks),
  }
  return {
    request,
    command: exec.shown,
    input,
    signal,
    stripFinalNewline: values.stripFinalNewline ?? stripFinalNewline.default,
    check: values.check ?? check.default,
    onPid: exec.onPid,
  }
}

/** Plans a run whose output is read while it runs. */
export function planStream(exec: ExecRequest, defaults: ExecDefaults): ExecPlan {
  const maxBuffer = exec.wholeResult ? defaults.maxBuffer : defaults.streamMaxBuffer
  const plan = planExec(exec, { ...defaults, maxBuffer })
  return { ...plan, request: { ...plan.request, events: true, window: exec.bounds?.window } }
}

function inputKind(input: CheckedInput | undefined): NativeExec['input'] {
  if (input === undefined) return 'none'
  return input instanceof Uint8Array ? 'bytes' : 'stream'
}
