/** The options of the drop-in session of `nacre/container`. */

import type { ExecOptions, SessionOptions, StreamOptions } from '../calls/container.js'
import { oneOf } from '../schema/constructors.js'
import { commandVariables, sessionVariables } from '../schema/env.js'
import { table } from '../schema/kind.js'
import { label } from '../schema/names.js'
import { milliseconds } from '../schema/numbers.js'
import { directoryText } from '../schema/paths.js'
import { flag, ignored, logger } from '../schema/values.js'

/** Of `new Session`. */
export const containerSessionOptions = table<SessionOptions>()({
  id: label,
  cwd: directoryText,
  env: sessionVariables,
  isolation: ignored,
  commandTimeoutMs: { ...milliseconds, default: 0 },
  surviveExit: { ...flag, default: false },
  logger,
})

/** Of `exec`. */
export const containerExecOptions = table<ExecOptions>()({
  cwd: directoryText,
  env: commandVariables,
  timeoutMs: milliseconds,
  origin: { ...oneOf(['user', 'internal']), default: 'user' },
})

/** Of `execStream`. */
export const containerStreamOptions = table<StreamOptions>()({
  ...containerExecOptions,
  commandId: label,
})
