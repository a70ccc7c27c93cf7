/**
 * Readers for what a process may use, and for the size of a terminal. Whether this machine can enforce a limit is for
 * the engine to find out.
 */
import type { NativeLimits } from '../boundary'
import { OptionError } from '../errors'
import { wholeNumber } from './numbers'
import { describe, readGroup } from './read'

/** Counts cross the boundary as u32. */
const MAX_COUNT = 0xffff_ffff
/** The kernel counts rows and columns in 16 bits. */
const MAX_CELLS = 0xffff

const limitOptions = {
  memory: wholeNumber(1, Number.MAX_SAFE_INTEGER),
  cpus: processors,
  pids: wholeNumber(1, MAX_COUNT),
  openFiles: wholeNumber(1, MAX_COUNT),
}

const terminalOptions = { cols: wholeNumber(1, MAX_CELLS), rows: wholeNumber(1, MAX_CELLS) }

/** An object of limits, or undefined when it names none. */
export function resourceLimits(value: unknown, name: string): NativeLimits | undefined {
  const limits = readGroup(limitOptions, value, name)
  return Object.keys(limits).length > 0 ? limits : undefined
}

/** A fraction of processors, more than 0. */
function processors(value: unknown, name: string): number {
  if (typeof value === 'number' && value > 0 && Number.isFinite(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a number of processors greater than 0, not ${describe(value)}`,
  )
}

/** Columns and rows, both of them. */
export function terminal(value: unknown, name: string): { cols: number; rows: number } {
  const { cols, rows } = readGroup(terminalOptions, value, name)
  if (cols !== undefined && rows !== undefined) return { cols, rows }
  throw new OptionError('INVALID_OPTION', `${name} must have both cols and rows`)
}
