/**
 * Checks the options of durable jobs, which are the same for every backend.
 */

import { invalidOption, OptionError } from '../base/errors.js'
import { ownOnly } from '../base/own.js'
import { jobCancelOptions, jobFollowOptions, jobStartOptions } from '../calls/jobs.js'
import { type CheckedCommand, showCommand } from '../schema/command.js'
import type { CompleteValues, OptionValues } from '../schema/kind.js'
import { readId } from '../schema/names.js'
import { bytes } from '../schema/numbers.js'
import { readArgument, readEntries, readOptions, readWithDefaults, refusal } from '../schema/read.js'

/** A job to start. The command is always set, and each option has its current name. */
export type JobStartPlan = Omit<OptionValues<typeof jobStartOptions>, 'timeoutSeconds' | 'stdin'> & {
  command: CheckedCommand
  shown: string
}

/** How to read a part of the output. */
export type JobReadPlan = Omit<JobFollowPlan, 'signal'>

/** Where to read. `cursor`: in bytes. */
export interface JobPlace {
  jobId: string
  cursor: number
}

export interface JobWaitPlan {
  jobId: string
  signal: AbortSignal | undefined
}

export type JobFollowPlan = CompleteValues<typeof jobFollowOptions>

/** Checks the argument of `jobs.start`. Throws OptionError. */
export function planJobStart(options: unknown): JobStartPlan {
  const values = readOptions(jobStartOptions, readArgument(asObject, options, 'jobs.start'), 'jobs.start')
  if (values.command === undefined) throw new OptionError('INVALID_COMMAND', 'command must be given')
  refuseBoth(values, 'timeout', 'timeoutSeconds')
  refuseBoth(values, 'input', 'stdin')
  const { timeoutSeconds, stdin, command, ...rest } = values
  const timeout = timeoutSeconds === undefined ? values.timeout : Math.ceil(timeoutSeconds * 1000)
  const input = values.input ?? stdin
  return ownOnly({ ...rest, timeout, input, command, shown: showCommand(command) })
}

/** Checks the options of `jobs.follow`. Throws OptionError. */
export function planJobFollow(options: unknown): JobFollowPlan {
  return readWithDefaults(jobFollowOptions, options, 'jobs.follow')
}

/** Checks the options of `jobs.cancel`. Throws OptionError. */
export function planJobCancel(options: unknown): { forceKillAfterDelay: number | undefined } {
  const values = readOptions(jobCancelOptions, options, 'jobs.cancel')
  refuseBoth(values, 'forceKillAfterDelay', 'graceMs')
  return { forceKillAfterDelay: values.forceKillAfterDelay ?? values.graceMs }
}

/** The offset in bytes to read from. */
export function readCursor(cursor: unknown): number {
  return cursor === undefined ? 0 : readArgument(bytes.read, cursor, 'cursor')
}

/** The id of a job, from an id or a handle. No other property of a handle is read. */
export function jobReference(job: unknown): string {
  if (typeof job !== 'object') return readId(job, 'jobId')
  const entries = readArgument(readEntries, job, 'job')
  return readId(new Map(entries).get('jobId'), 'job.jobId')
}

/** Refuses an option that is given under both of its names. */
function refuseBoth<T extends object>(values: T, name: keyof T & string, other: keyof T & string): void {
  if (values[name] === undefined || values[other] === undefined) return
  throw invalidOption(`${name} and ${other} exclude each other`)
}

function asObject(value: unknown, name: string): object {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw refusal(`the argument of ${name}`, 'must be an object with a command', value)
}
