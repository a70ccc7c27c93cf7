/**
 * The options of sessions.
 */
import { envChanges } from './env'
import { identifier } from './ids'
import { directory } from './paths'
import { flag } from './values'

/** Option names of `createSession`. */
export const sessionOptions = { id: identifier, cwd: directory, env: envChanges, surviveExit: flag }

/** Option names of `setEnvVars`. */
export const setEnvVarsOptions = { sessionId: identifier }
