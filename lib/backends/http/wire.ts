/**
 * Between the values of callers and the JSON of the server: text is a string, bytes are `{ base64 }`.
 */

import { fromBase64, toBase64 } from '../../base/base64.js'
import type {
  Encoding,
  ExecResult,
  JobInfo,
  JobRead,
  JobStatus,
  LogEvent,
  Output,
  ProcessLogs,
} from '../../public/index.js'
import type { WireData } from '../../schema/command.js'
import { malformed, objectOf } from './malformed.js'

type Wire<T, K extends keyof T> = Omit<T, K> & { [N in K]: WireData }

export type WireResult = Wire<ExecResult<Encoding>, 'stdout' | 'stderr'> & { all?: WireData }
export type WireLogs = Wire<ProcessLogs<Encoding>, 'stdout' | 'stderr'>
export type WireRead = Omit<Wire<JobRead<Encoding>, 'raw'>, 'status'> & { status: WireJobStatus }

/** Left out while unknown. */
type Known = Pick<JobStatus, 'signal' | 'reason' | 'duration'>
export type WireJobStatus = Omit<JobStatus, keyof Known | 'endedAt'> & Partial<Known> & { endedAt?: string }
export type WireJobInfo = Omit<JobInfo, 'createdAt' | 'command' | 'status'> & {
  createdAt: string
  command?: string
  status: WireJobStatus
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()

export function encodeBytes(bytes: Uint8Array): WireData {
  return { base64: toBase64(bytes) }
}

export function bytesOf(data: WireData): Uint8Array {
  return typeof data === 'string' ? encoder.encode(data) : base64Of(data)
}

/** The output in the caller's encoding, whichever way it was sent. */
function outputOf(data: WireData, encoding: Encoding): Output<Encoding> {
  if (encoding === 'buffer') return bytesOf(data)
  return typeof data === 'string' ? data : decoder.decode(base64Of(data))
}

function base64Of(data: { base64: string }): Uint8Array {
  if (typeof objectOf(data).base64 !== 'string') throw malformed()
  return fromBase64(data.base64)
}

/** `all` is only sent when it is not one of the two streams. */
export function resultOf(wire: WireResult, encoding: Encoding): ExecResult<Encoding> {
  objectOf(wire)
  const stdout = outputOf(wire.stdout, encoding)
  const stderr = outputOf(wire.stderr, encoding)
  const single = stdout.length > 0 ? stdout : stderr
  const all = wire.all === undefined ? single : outputOf(wire.all, encoding)
  return { ...wire, stdout, stderr, all }
}

export function logsOf({ stdout, stderr, ...rest }: WireLogs, encoding: Encoding): ProcessLogs<Encoding> {
  return { stdout: outputOf(stdout, encoding), stderr: outputOf(stderr, encoding), ...rest }
}

export function logEventOf(
  wire: LogEvent<Encoding> & { data?: WireData },
  encoding: Encoding,
): LogEvent<Encoding> {
  if (wire.type === 'exit') return wire
  return { ...wire, data: outputOf(wire.data as WireData, encoding) }
}

export function jobReadOf(
  { raw, cursor, bytesFetched, status }: WireRead,
  encoding: Encoding,
): JobRead<Encoding> {
  return { raw: outputOf(raw, encoding), cursor, bytesFetched, status: jobStatusOf(status) }
}

export function jobStatusOf({ endedAt, signal, reason, duration, ...wire }: WireJobStatus): JobStatus {
  const known = { signal: signal ?? null, reason: reason ?? null, duration: duration ?? null }
  return { ...wire, ...known, endedAt: endedAt === undefined ? null : new Date(endedAt) }
}

export function jobInfoOf({ createdAt, command, status, ...handle }: WireJobInfo): JobInfo {
  return {
    ...handle,
    createdAt: createdAt === '' ? null : new Date(createdAt),
    command: command ?? null,
    status: jobStatusOf(status),
  }
}

/** Bytes of input in one request. Also as base64, it fits into the default limit of a body. */
export const MOST_BYTES_AT_ONCE = 1024 * 1024

/** The bytes in pieces that fit into requests; at least one. */
export function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let start = 0; start === 0 || start < bytes.length; start += MOST_BYTES_AT_ONCE)
    yield bytes.subarray(start, start + MOST_BYTES_AT_ONCE)
}
