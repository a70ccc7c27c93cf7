/**
 * The options of the drop-in session, and how they become those of a sandbox and of its commands.
 */

import { OptionError } from '../base/errors.js'
import { envChanges, isVariableName } from '../options/env.js'
import { milliseconds } from '../options/numbers.js'
import type { OptionValues } from '../options/option.js'
import { directory } from '../options/paths.js'
import { describe, readArgument, readEntries, readOptions } from '../options/read.js'
import { flag, logger } from '../options/values.js'
import type { ExecOptions, Logger, SessionOptions } from '../public/container.js'

type Variables = Record<string, string | undefined>

/** What a container passes on from its own callers: it is accepted whatever it is, and ignored. */
const ignored = () => undefined

const sessionOptions = {
  id: label,
  cwd: directory,
  env: sessionVariables,
  isolation: ignored,
  commandTimeoutMs: milliseconds,
  surviveExit: flag,
  logger,
}

const execOptions = {
  cwd: directory,
  env: commandVariables,
  timeoutMs: milliseconds,
  origin,
}

const streamOptions = { ...execOptions, commandId: label }

/** The options of one session, checked. */
export interface SessionPlan {
  id: string
  cwd: string | undefined
  env: Variables
  commandTimeoutMs: number
  surviveExit: boolean
  logger: Logger | undefined
}

/** The options of one command, checked. `timeoutMs` is there only when it was given. */
export type CommandPlan = OptionValues<typeof execOptions>

/** Checks the options of `new Session`. Throws OptionError. */
export function planSession(options: SessionOptions): SessionPlan {
  const values = readOptions(
    sessionOptions,
    readArgument(given, options, 'the options of Session'),
    'Session',
  )
  return {
    id: readArgument(label, values.id, 'id'),
    cwd: values.cwd,
    env: values.env ?? {},
    commandTimeoutMs: values.commandTimeoutMs ?? 0,
    surviveExit: values.surviveExit ?? false,
    logger: values.logger,
  }
}

/** Checks the options of `exec`. Throws OptionError. */
export function planExec(options: ExecOptions | undefined): CommandPlan {
  return readOptions(execOptions, options, 'exec')
}

/** Checks the options of `execStream`. Throws OptionError. */
export function planStream(options: unknown): OptionValues<typeof streamOptions> {
  return readOptions(streamOptions, options, 'execStream')
}

/** A name that is only ever compared and shown, so any text will do: it is never used as a path. */
export function label(value: unknown, name: string): string {
  if (typeof value === 'string' && value !== '') return value
  throw new OptionError('INVALID_ID', `${name} must be a text that is not empty, not ${describe(value)}`)
}

function given(value: unknown, name: string): unknown {
  if (value !== undefined) return value
  throw new OptionError('INVALID_OPTION', `${name} are missing; it needs an id`)
}

function origin(value: unknown, name: string): 'user' | 'internal' {
  if (value === 'user' || value === 'internal') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'user' or 'internal', not ${describe(value)}`)
}

/** Over the environment of this process, so that `undefined` and null take a variable away. */
function sessionVariables(value: unknown, name: string): Variables {
  return variables(value, name)
}

/** `undefined` and null are skipped: the command sees what the session has. */
function commandVariables(value: unknown, name: string): Variables {
  return Object.fromEntries(
    Object.entries(variables(value, name)).filter(([, variable]) => variable !== undefined),
  )
}

function variables(value: unknown, name: string): Variables {
  const found = readEntries(value, name).map(([key, item]): [string, unknown] => {
    if (!isVariableName(key))
      throw new OptionError('INVALID_ENV_NAME', `Invalid environment variable name: ${key}`)
    return [key, item ?? undefined]
  })
  const checked = Object.fromEntries(found)
  envChanges(checked, name)
  return checked as Variables
}
