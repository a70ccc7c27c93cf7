/** The options of sessions. */

import { env } from '../schema/env.js'
import { isolation } from '../schema/isolation.js'
import { option } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { count } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { flag } from '../schema/values.js'

/** Of `createSession`. */
export const sessionOptions = {
  id: option(identifier, { doc: 'The id of the session.', otherwise: 'a random UUID' }),
  cwd: option(directory, {
    doc: "Directory in which the session starts, relative to the sandbox's.",
    otherwise: "the sandbox's",
  }),
  env: option(env, { doc: 'Changes to the environment of the sandbox.', otherwise: 'none' }),
  surviveExit: option(flag, {
    doc: '`exit` ends only the command; the session continues.',
    otherwise: "the sandbox's",
  }),
  isolation: option(isolation, {
    doc: "Rules at least as strict as the sandbox's.",
    otherwise: "the sandbox's",
  }),
}

/** Of `setEnvVars`. */
export const setEnvVarsOptions = {
  sessionId: option(identifier, { doc: 'The session whose variables to set.', default: 'default' }),
}

/** Of `session.history`. */
export const historyOptions = {
  limit: option(count(1, 100), {
    doc: 'Maximum number of commands; the last ones are returned.',
    default: 100,
  }),
}
