/** The options of the drop-in session of `nacre/container`. */

import { oneOf } from '../schema/constructors.js'
import { commandVariables, sessionVariables } from '../schema/env.js'
import { option } from '../schema/kind.js'
import { label } from '../schema/names.js'
import { milliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { flag, ignored, logger } from '../schema/values.js'

/** Of `new Session`. */
export const containerSessionOptions = {
  id: option(label, { doc: 'The id of the session, for error messages.' }),
  cwd: option(directory, { doc: 'Directory in which the session starts.', otherwise: '`process.cwd()`' }),
  env: option(sessionVariables, {
    doc: 'Variables, merged over the environment of this process.',
    otherwise: 'none',
  }),
  isolation: option(ignored, { doc: 'Accepted and ignored.', otherwise: 'none' }),
  commandTimeoutMs: option(milliseconds, {
    doc: 'Time limit of each `exec`; 0 = none.',
    default: 0,
  }),
  surviveExit: option(flag, { doc: '`exit` ends only the command; the session continues.', default: false }),
  logger: option(logger, { doc: 'Receives a line for each command that ends.', otherwise: 'none' }),
}

/** Of `exec`. */
export const containerExecOptions = {
  cwd: option(directory, { doc: 'Directory for this command only.', otherwise: "the session's" }),
  env: option(commandVariables, { doc: 'Variables for this command only.', otherwise: 'none' }),
  timeoutMs: option(milliseconds, {
    doc: 'Time limit of the command; 0 = none.',
    otherwise: "the session's `commandTimeoutMs`; 0 for `execStream`",
  }),
  origin: option(oneOf(['user', 'internal']), {
    doc: "Sets the log level: info for 'user', debug for 'internal'.",
    default: 'user',
  }),
}

/** Of `execStream`. */
export const containerStreamOptions = {
  ...containerExecOptions,
  commandId: option(label, { doc: 'The id to pass to `killCommand`.', otherwise: 'a random UUID' }),
}
