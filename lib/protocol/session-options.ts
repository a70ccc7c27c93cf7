/** The options of sessions. */

import { option } from '../options/option.js'
import { isolation } from './isolation-options.js'
import { count, directory, env, flag, id } from './kinds.js'

/** Of `createSession`. */
export const sessionOptions = {
  id: option(id, { doc: 'The id of the session.', otherwise: 'a random UUID' }),
  cwd: option(directory, {
    doc: "Directory in which the session starts, resolved against the sandbox's.",
    otherwise: "the sandbox's",
  }),
  env: option(env, { doc: "Environment changes over the sandbox's.", otherwise: 'none' }),
  surviveExit: option(flag, {
    doc: '`exit` ends the command and not the session.',
    otherwise: "the sandbox's",
  }),
  isolation: option(isolation, {
    doc: "Rules that are as strict as the sandbox's, or stricter.",
    otherwise: "the sandbox's",
  }),
}

/** Of `setEnvVars`. */
export const setEnvVarsOptions = {
  sessionId: option(id, { doc: 'The session whose variables are set.', default: 'default' }),
}

/** Of `session.history`. */
export const historyOptions = {
  limit: option(count(1, 100), { doc: 'How many commands, the last ones.', default: 100 }),
}
