/** Readers for values that only jobs use. */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** The longest time that timers support, in seconds. */
export const MOST_SECONDS = 2_147_483
const MOST_NAME_CHARACTERS = 256

export function seconds(value: unknown, name: string): number {
  if (typeof value === 'number' && value > 0 && value <= MOST_SECONDS) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a number of seconds greater than 0 and at most ${MOST_SECONDS}, not ${describe(value)}`,
  )
}

const STATES = ['running', 'exited', 'crashed'] as const

export function jobState(value: unknown, name: string): (typeof STATES)[number] {
  const state = STATES.find((known) => known === value)
  if (state !== undefined) return state
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be 'running', 'exited' or 'crashed', not ${describe(value)}`,
  )
}

/** A one-line name for people. */
export function processName(value: unknown, name: string): string {
  const fits =
    typeof value === 'string' &&
    value.length >= 1 &&
    value.length <= MOST_NAME_CHARACTERS &&
    !Array.from(value).some((character) => character < ' ' || character === '\x7f')
  if (fits) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be 1 to ${MOST_NAME_CHARACTERS} characters without control characters, not ${describe(value)}`,
  )
}
