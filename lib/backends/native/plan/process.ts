/** Translates a process to the request that crosses the boundary, with the sandbox's defaults. */

import type { NativeDetachedProcess, NativeProcessStart } from '../../../boundary/index.js'
import { processOptions } from '../../../calls/process.js'
import type { ProcessRequest } from '../../../requests/process.js'
import type { ServiceRequest } from '../../../requests/service.js'
import { withDefaults } from '../../../schema/read.js'
import type { StartDefaults } from './defaults.js'

/** Everything that a process needs to start. */
export interface ProcessPlan {
  request: NativeProcessStart
  /** The input, unless it is sent as bytes with the start. */
  source: AsyncIterable<unknown> | undefined
}

/** A service, ready to start. */
export type ServicePlan = Omit<ServiceRequest, 'process'> & { process: ProcessPlan }

/** Plans a process. The sandbox's timeout applies to commands, not to processes. */
export function planProcess(process: ProcessRequest, defaults: StartDefaults): ProcessPlan {
  const { command, sessionId } = process
  const values = withDefaults(processOptions, process.values)
  const { input } = values
  const env = defaults.secrets.coverEnv(values.env)
  const bytes = input instanceof Uint8Array ? input : undefined
  const request: NativeProcessStart = {
    processId: values.processId ?? freshProcessId(),
    sessionId,
    ...command,
    command: process.shown,
    cwd: values.cwd,
    envNames: env?.names,
    envValues: env?.values,
    timeout: values.timeout,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    input:
      bytes === undefined ? (input === undefined && values.pty === undefined ? 'none' : 'open') : 'bytes',
    inputBytes: bytes,
    ipc: values.ipc,
    mergeOutput: values.mergeOutput,
    logLimit: values.logLimit,
    window: process.window,
    pty: values.pty,
    limits: values.limits,
    autoCleanup: values.autoCleanup,
  }
  const source =
    typeof input === 'object' && bytes === undefined ? (input as AsyncIterable<unknown>) : undefined
  return { request, source }
}

/** Plans the process that a command can become. With `logLimit`, its log begins with the command. */
export function planDetached(command: string, logLimit: number | undefined): NativeDetachedProcess {
  return {
    processId: freshProcessId(),
    command,
    logLimit: logLimit ?? processOptions.logLimit.default,
    keepsLog: logLimit !== undefined,
    autoCleanup: processOptions.autoCleanup.default,
  }
}

/** A random id: short, since people read and type it; 40 bits, so that thousands do not collide. */
export function freshProcessId(): string {
  // Runtimes make many of these at a time, which is far faster than asking for random bytes: each stream has an id.
  const uuid = crypto.randomUUID()
  return `proc-${uuid.slice(0, 8)}${uuid.slice(9, 11)}`
}
