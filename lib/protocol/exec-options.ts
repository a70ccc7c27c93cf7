/** The options of commands in the foreground. */

import type { Encoding, ExecOptions, SessionExecOptions } from '../calls/index.js'
import { input } from '../schema/command.js'
import { env } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, milliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { abortSignal, killSignal } from '../schema/signals.js'
import { callback, encoding, flag, ownFlag } from '../schema/values.js'

/** Of `session.exec` and `session.execStream`. */
export const sessionExecOptions = table<SessionExecOptions<Encoding, boolean>>()({
  cwd: directory,
  env,
  timeout: milliseconds,
  signal: abortSignal,
  killSignal,
  forceKillAfterDelay: milliseconds,
  input,
  encoding: { ...encoding, default: 'utf8' },
  mergeOutput: { ...flag, default: false },
  lines: { ...ownFlag, default: false },
  stripFinalNewline: { ...flag, default: false },
  maxBuffer: bytes,
  outputLimit: bytes,
  check: { ...flag, default: false },
  verbose: ownFlag,
  onOutput: callback,
  onStdout: callback,
  onStderr: callback,
  onLine: callback,
  onStart: callback,
  onComplete: callback,
  onError: callback,
})

/** Of `sandbox.exec` and `sandbox.execStream`. */
export const execOptions = table<ExecOptions<Encoding, boolean>>()({
  sessionId: { ...identifier, default: 'default' },
  ...sessionExecOptions,
})
