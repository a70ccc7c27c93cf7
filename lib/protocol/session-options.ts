/** The options of sessions. */

import type { HistoryOptions, Sandbox, SessionOptions } from '../calls/index.js'
import { env } from '../schema/env.js'
import { isolation } from '../schema/isolation.js'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { count } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { flag } from '../schema/values.js'

/** Of `createSession`. */
export const sessionOptions = table<SessionOptions>()({
  id: identifier,
  cwd: directory,
  env,
  surviveExit: flag,
  isolation,
})

type SetEnvVarsOptions = NonNullable<Parameters<Sandbox['setEnvVars']>[1]>

/** Of `setEnvVars`. */
export const setEnvVarsOptions = table<SetEnvVarsOptions>()({
  sessionId: { ...identifier, default: 'default' },
})

/** Of `session.history`. */
export const historyOptions = table<HistoryOptions>()({
  limit: { ...count(1, 100), default: 100 },
})
