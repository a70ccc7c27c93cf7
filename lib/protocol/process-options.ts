/** The options of background processes and services. */

import type { KillOptions, ProcessOptions, ServiceOptions, SessionProcessOptions } from '../calls/index.js'
import { processInput, serviceInput } from '../schema/command.js'
import { oneOf } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { limits, pty } from '../schema/process.js'
import { abortSignal, killSignal } from '../schema/signals.js'
import { callback, flag, ownFlag } from '../schema/values.js'

/** Of `session.startProcess`. */
export const sessionProcessOptions = table<SessionProcessOptions>()({
  processId: identifier,
  cwd: directory,
  env,
  timeout: { ...milliseconds, default: 0 },
  signal: abortSignal,
  killSignal,
  forceKillAfterDelay: milliseconds,
  input: processInput,
  logLimit: { ...bytes, default: 67_108_864 },
  autoCleanup: { ...flag, default: true },
  limits,
  pty,
  mergeOutput: { ...flag, default: false },
  verbose: ownFlag,
  onStart: callback,
  onOutput: callback,
  onStdout: callback,
  onStderr: callback,
  onLine: callback,
  onExit: callback,
  onError: callback,
})

/** Of `sandbox.startProcess`. */
export const processOptions = table<ProcessOptions>()({
  sessionId: { ...identifier, default: 'default' },
  ...sessionProcessOptions,
})

/** Of `startService`, without `healthCheck`, which is required and has kinds of its own. */
export const serviceOptions = table<Omit<ServiceOptions, 'healthCheck'>>()({
  ...processOptions,
  input: serviceInput,
  restart: { ...oneOf(['never', 'on-failure']), default: 'never' },
  restartDelay: { ...positiveMilliseconds, default: 500 },
})

/** Of `kill`. */
export const killOptions = table<KillOptions>()({ forceKillAfterDelay: milliseconds })
