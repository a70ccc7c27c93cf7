/**
 * The data of a BullMQ job: what its durable job needs, as JSON. Other programs may write it, so workers check it again.
 */

import type { Command, JobStartOptions } from 'nacre'
import { decodeOptions, encodeOptions, fromBase64, kinds, OptionError } from 'nacre/internal'
import { queueCommandOptions } from './options.js'
import type { OnHostLost } from './public.js'

/** Redis keeps it in memory, and each worker that gets the job reads all of it. */
const MOST_CHARACTERS = 1024 * 1024

/** The data as it is stored. */
export interface StoredData {
  /** What distinguishes this addition from earlier ones with the same id. */
  uid: string
  /** Options of the durable job, as over HTTP. */
  start: Record<string, unknown>
  check: boolean
  onHostLost: OnHostLost
  /** Trace context: TRACEPARENT and TRACESTATE. */
  trace?: Record<string, string>
}

/** Checked data of a job. */
export interface JobRequest extends Omit<StoredData, 'start'> {
  start: Omit<JobStartOptions, 'jobId' | 'processName'>
}

/** Options of an addition as data. Throws OptionError when it is too long. */
export function encodeData(
  values: kinds.OptionValues<typeof queueCommandOptions>,
  rest: Omit<StoredData, 'start'>,
): StoredData {
  const data = { ...rest, start: encodeOptions(queueCommandOptions, values) }
  if (JSON.stringify(data).length <= MOST_CHARACTERS) return data
  throw new OptionError(
    'INVALID_OPTION',
    `the job must have at most ${MOST_CHARACTERS} characters as JSON, input included: put the input into a file`,
  )
}

/** The data of a job that any program may have added. Throws OptionError. */
export function decodeData(data: unknown): JobRequest {
  const { uid, start, check, onHostLost, trace } = Object.fromEntries(
    kinds.readEntries(data, 'the data of the job'),
  )
  if (typeof uid !== 'string' || !/^[\w-]{1,128}$/.test(uid))
    throw new OptionError(
      'INVALID_OPTION',
      `the data of the job was not written by nacre: uid is ${kinds.describe(uid)}`,
    )
  const entries = Object.fromEntries(kinds.readEntries(start, 'start'))
  const options = decodeOptions(queueCommandOptions, entries, fromBase64)
  if (kinds.readArgument(readCommandOptions, options, 'start').command === undefined)
    throw new OptionError('INVALID_COMMAND', 'command must be given')
  return {
    uid,
    start: options as unknown as JobRequest['start'],
    check: check !== false,
    onHostLost: onHostLost === 'retry' ? 'retry' : 'fail',
    trace: traceOf(trace),
  }
}

/** The command of a job, for display. */
export function commandOf(data: unknown): Command {
  const { command } = (data as Partial<StoredData> | null)?.start ?? {}
  return typeof command === 'string' || Array.isArray(command) ? (command as Command) : ''
}

function readCommandOptions(options: unknown): kinds.OptionValues<typeof queueCommandOptions> {
  return kinds.readOptions(queueCommandOptions, options, 'the job')
}

function traceOf(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {}
  const entries = Object.entries(value).filter(
    ([name, text]) => /^TRACE(PARENT|STATE)$/.test(name) && typeof text === 'string' && text.length <= 1024,
  )
  return Object.fromEntries(entries) as Record<string, string>
}
