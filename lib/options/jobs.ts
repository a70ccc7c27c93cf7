/**
 * The options of durable jobs. They are the same for every backend that runs jobs.
 */
import type { Encoding } from '../../index'
import { OptionError } from '../errors'
import { type CheckedCommand, readCommand, showCommand } from './command'
import { envChanges } from './env'
import { identifier } from './ids'
import { inputBytes } from './input'
import { resourceLimits } from './limits'
import { byteCount, milliseconds, wholeNumber } from './numbers'
import { directory } from './paths'
import { describe, type OptionValues, readArgument, readEntries, readOptions } from './read'
import { abortSignal } from './signals'
import { encoding, flag } from './values'

/** 1 MiB: few calls for much output, and little memory. */
export const DEFAULT_READ_BYTES = 1024 * 1024
/** 64 MiB. */
const MOST_READ_BYTES = 64 * 1024 * 1024
/** The longest time that timers can hold. */
const MOST_SECONDS = 2_147_483

const MOST_NAME_CHARACTERS = 256

const startOptions = {
  jobId: identifier,
  command: readCommand,
  cwd: directory,
  env: envChanges,
  processName,
  timeoutSeconds: seconds,
  limits: resourceLimits,
  stdin: inputBytes,
}

const readingOptions = { maxBytes: wholeNumber(1, MOST_READ_BYTES), lines: flag, encoding }

/** What is to be started; the command is always there. */
export type JobStartPlan = OptionValues<typeof startOptions> & { command: CheckedCommand; shown: string }

/** How a part of the output is read. */
export interface JobReadPlan {
  maxBytes: number
  /** Cut behind a newline. */
  lines: boolean
  encoding: Encoding
}

/** Checks the argument of `jobs.start`. Throws OptionError. */
export function planJobStart(options: unknown): JobStartPlan {
  const values = readOptions(startOptions, readArgument(asObject, options, 'jobs.start'), 'jobs.start')
  if (values.command === undefined) throw new OptionError('INVALID_COMMAND', 'command must be given')
  return { ...values, command: values.command, shown: showCommand(values.command) }
}

/** Checks the options of `jobs.read`. Throws OptionError. */
export function planJobRead(options: unknown): JobReadPlan {
  return readPlan(readOptions(readingOptions, options, 'jobs.read'))
}

/** Checks the options of `jobs.follow`. Throws OptionError. */
export function planJobFollow(options: unknown): JobReadPlan & { signal: AbortSignal | undefined } {
  const values = readOptions({ ...readingOptions, signal: abortSignal }, options, 'jobs.follow')
  return { ...readPlan(values), signal: values.signal }
}

/** Checks the options of `jobs.wait`. Throws OptionError. */
export function planJobWait(options: unknown): { signal: AbortSignal | undefined } {
  return { signal: readOptions({ signal: abortSignal }, options, 'jobs.wait').signal }
}

/** Checks the options of `jobs.cancel`. Throws OptionError. */
export function planJobCancel(options: unknown): { graceMs: number | undefined } {
  return { graceMs: readOptions({ graceMs: milliseconds }, options, 'jobs.cancel').graceMs }
}

/** Where to read from: an offset in bytes. */
export function readCursor(cursor: unknown): number {
  return cursor === undefined ? 0 : readArgument(byteCount, cursor, 'cursor')
}

/** The id of a job, given as such or with a handle. Nothing else of a handle is believed. */
export function jobReference(job: unknown): string {
  if (typeof job !== 'object') return readArgument(identifier, job, 'jobId')
  const entries = readArgument(readEntries, job, 'job')
  return readArgument(identifier, new Map(entries).get('jobId'), 'job.jobId')
}

function readPlan(values: OptionValues<typeof readingOptions>): JobReadPlan {
  const { maxBytes = DEFAULT_READ_BYTES, lines = false, encoding: chosen = 'utf8' } = values
  return { maxBytes, lines, encoding: chosen }
}

function asObject(value: unknown, name: string): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `the argument of ${name} must be an object with a command, not ${describe(value)}`,
  )
}

function seconds(value: unknown, name: string): number {
  if (typeof value === 'number' && value > 0 && value <= MOST_SECONDS) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a number of seconds greater than 0 and at most ${MOST_SECONDS}, not ${describe(value)}`,
  )
}

/** For people: one line. */
function processName(value: unknown, name: string): string {
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
