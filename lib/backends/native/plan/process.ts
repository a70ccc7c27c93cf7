/** Translates a process to the request that crosses the boundary, with the sandbox's defaults. */

import type { NativeDetachedProcess, NativeProcessStart } from '../../../boundary/index.js'
import { processOptions } from '../../../calls/process.js'
import type { ProcessRequest } from '../../../requests/process.js'
import type { ServiceRequest } from '../../../requests/service.js'
import { withDefaults } from '../../../schema/read.js'
import type { ExecDefaults } from './exec.js'

/** Everything that a process needs to start. */
export interface ProcessPlan {
  request: NativeProcessStart
  /** The input, unless it is sent as bytes with the start. */
  source: AsyncIterable<unknown> | undefined
}

/** A service, ready to start. */
export type ServicePlan = Omit<ServiceRequest, 'process'> & { process: ProcessPlan }

/** Plans a process. The sandbox's timeout applies to commands, not to processes. */
export function planProcess(process: ProcessRequest, defaults: ExecDefaults): ProcessPlan {
  const { command, sessionId } = process
  const values = withDefaults(processOptions, process.values)
  const { input } = values
  const bytes = input instanceof Uint8Array ? input : undefined
  const request: NativeProcessStart = {
    processId: values.processId ?? freshProcessId(),
    sessionId,
    ...command,
    command: process.shown,
    cwd: values.cwd,
    envNames: values.env?.names,
    envValues: values.env?.values,
    timeout: values.timeout,
    killSignal: values.killSignal ?? defaults.killSignal,
    forceKillAfterDelay: values.forceKillAfterDelay ?? defaults.forceKillAfterDelay,
    input:
      bytes === undefined ? (input === undefined && values.pty === undefined ? 'none' : 'open') : 'bytes',
    inputBytes: bytes,
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

/** Plans the process that a running command becomes. `endsCall`: its call ends now. */
export function planDetached(command: string, endsCall: boolean): NativeDetachedProcess {
  const { logLimit, autoCleanup } = processOptions
  return {
    processId: freshProcessId(),
    command,
    logLimit: logLimit.default,
    autoCleanup: autoCleanup.default,
    endsCall,
  }
}

/** A random id: short, since people read and type it; 40 bits, so that thousands do not collide. */
export function freshProcessId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5))
  return `proc-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
