/**
 * What a process may use, and the size of a terminal. Whether this machine can enforce a limit is for the engine to find
 * out.
 */
import { OptionError } from '../base/errors.js'
import type { Limits } from '../public/index.js'
import { limitOptions, terminalOptions } from './limit-options.js'
import type { Kind } from './option.js'
import { readGroup } from './read.js'

/** An object of limits, or undefined when it names none. */
function resourceLimits(value: unknown, name: string): Limits | undefined {
  const limits = readGroup(limitOptions, value, name)
  return Object.keys(limits).length > 0 ? limits : undefined
}

export const limits: Kind<Limits | undefined> = {
  read: resourceLimits,
  json: { schema: { type: 'object', table: limitOptions } },
  bounds: 'an object of limits',
}

/** The size that terminals have by tradition. */
const USUAL_SIZE = { cols: 80, rows: 24 }

/** Columns and rows, both of them; true is the usual size, false no terminal. */
export function terminalOption(value: unknown, name: string): { cols: number; rows: number } | undefined {
  if (typeof value === 'boolean') return value ? USUAL_SIZE : undefined
  return terminal(value, name)
}

/** Columns and rows, both of them. */
export function terminal(value: unknown, name: string): { cols: number; rows: number } {
  const { cols, rows } = readGroup(terminalOptions, value, name)
  if (cols !== undefined && rows !== undefined) return { cols, rows }
  throw new OptionError('INVALID_OPTION', `${name} must have both cols and rows`)
}
