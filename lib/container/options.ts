/**
 * The options of the drop-in session, and their translation to the options of a sandbox and its commands.
 */

import { invalidOption } from '../base/errors.js'
import type { Logger } from '../base/types.js'
import {
  type containerExecOptions,
  containerSessionOptions,
  type SessionOptions,
} from '../calls/container.js'
import type { Variables } from '../schema/env.js'
import type { OptionValues } from '../schema/kind.js'
import { label } from '../schema/names.js'
import { readArgument, readWithDefaults } from '../schema/read.js'

/** The options of one session, checked. */
export interface SessionPlan {
  id: string
  cwd: string | undefined
  env: Variables
  commandTimeoutMs: number
  surviveExit: boolean
  logger: Logger | undefined
}

/** The options of one command, checked. `timeoutMs` is set only if it was given. */
export type CommandPlan = OptionValues<typeof containerExecOptions>

/** Checks the options of `new Session`. Throws OptionError. */
export function planSession(options: SessionOptions): SessionPlan {
  const values = readWithDefaults(
    containerSessionOptions,
    readArgument(given, options, 'the options of Session'),
    'Session',
  )
  return { ...values, id: readArgument(label.read, values.id, 'id'), env: values.env ?? {} }
}

function given(value: unknown, name: string): unknown {
  if (value !== undefined) return value
  throw invalidOption(`${name} are missing; an id is required`)
}
