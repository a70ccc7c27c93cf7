/** The options of the drop-in session of `nacre/container`. */

import type { Logger } from '../public/index.js'
import {
  commandVariables,
  ignored,
  label as readLabel,
  origin as readOrigin,
  sessionVariables,
  type Variables,
} from '../schema/container-values.js'
import { directory, flag, milliseconds, oneOf } from '../schema/kinds.js'
import { type Kind, option } from '../schema/option.js'
import { logger as readLogger } from '../schema/values.js'

const label: Kind<string> = { read: readLabel, bounds: 'non-empty text' }
const anything: Kind<undefined> = { read: ignored, bounds: 'anything' }
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }
const sessionEnv: Kind<Variables> = {
  read: sessionVariables,
  bounds: 'strings by name; undefined and null unset',
}
const commandEnv: Kind<Variables> = {
  read: commandVariables,
  bounds: 'strings by name; undefined and null are skipped',
}

/** Of `new Session`. */
export const containerSessionOptions = {
  id: option(label, { doc: 'The id of the session, for error messages.' }),
  cwd: option(directory, { doc: 'Directory in which the session starts.', otherwise: '`process.cwd()`' }),
  env: option(sessionEnv, {
    doc: 'Variables, merged over the environment of this process.',
    otherwise: 'none',
  }),
  isolation: option(anything, { doc: 'Accepted and ignored.', otherwise: 'none' }),
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
  env: option(commandEnv, { doc: 'Variables for this command only.', otherwise: 'none' }),
  timeoutMs: option(milliseconds, {
    doc: 'Time limit of the command; 0 = none.',
    otherwise: "the session's `commandTimeoutMs`; 0 for `execStream`",
  }),
  origin: option(oneOf(readOrigin, 'user', 'internal'), {
    doc: "Sets the log level: info for 'user', debug for 'internal'.",
    default: 'user',
  }),
}

/** Of `execStream`. */
export const containerStreamOptions = {
  ...containerExecOptions,
  commandId: option(label, { doc: 'The id to pass to `killCommand`.', otherwise: 'a random UUID' }),
}
