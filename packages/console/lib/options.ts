/** The options of `record`. */
import { type Call, kinds, OptionError } from 'nacre/internal'

import type { RecordOptions } from './public.js'

const MIB = 1024 * 1024

/** Less than the files of a few recordings would take would remove what has just been recorded. */
export const LEAST_LIMIT = 64 * MIB
export const MOST_LIMIT = 1024 * 1024 * MIB

export const recordOptions = kinds.table<RecordOptions>()({
  directory: kinds.directoryText,
  limit: { ...kinds.count(LEAST_LIMIT, MOST_LIMIT), default: 256 * MIB },
  redact: kinds.redact,
  logger: kinds.logger,
})

/** Checks the options. Throws OptionError. */
export function planRecord(options: unknown) {
  const { directory, redact = [], ...values } = kinds.readWithDefaults(recordOptions, options, 'record')
  if (directory === undefined) throw new OptionError('INVALID_OPTION', 'record needs the option directory')
  return { ...values, directory, redact }
}

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'record', table: recordOptions, local: true }]
