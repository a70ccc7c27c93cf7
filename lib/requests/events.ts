/** Checks the options for reading events. Throws OptionError. */
import { eventOptions } from '../calls/events.js'
import type { CompleteValues } from '../schema/kind.js'
import { readWithDefaults } from '../schema/read.js'

export type EventPlan = CompleteValues<typeof eventOptions>

export function planEvents(options: unknown): EventPlan {
  return readWithDefaults(eventOptions, options, 'events')
}
