/** The options of `record`. */
import { type Call, count, logger, OptionError, readWithDefaults, redact, table } from 'nacre/internal'
import { directoryText } from 'nacre/internal/server'
import type { RecordOptions } from './public.js'

const MIB = 1024 * 1024

/** Less than the files of a few recordings would take would remove what has just been recorded. */
export const LEAST_LIMIT = 64 * MIB
export const MOST_LIMIT = 1024 * 1024 * MIB

export const recordOptions = table<RecordOptions>()({
  directory: directoryText,
  limit: { ...count(LEAST_LIMIT, MOST_LIMIT), default: 256 * MIB },
  redact,
  logger,
})

/** Checks the options. Throws OptionError. */
export function planRecord(options: unknown) {
  const { directory, redact = [], ...values } = readWithDefaults(recordOptions, options, 'record')
  if (directory === undefined) throw new OptionError('INVALID_OPTION', 'record needs the option directory')
  return { ...values, directory, redact }
}

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'record', table: recordOptions, local: true }]
