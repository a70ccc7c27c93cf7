/**
 * Results and bytes in JSON: text is a string, bytes are `{ base64 }`.
 */

import { decodeOptions } from '../protocol/codec.js'
import type {
  Encoding,
  ExecResult,
  JobInfo,
  JobRead,
  JobStatus,
  LogEvent,
  Output,
  ProcessInfo,
  ProcessLogs,
} from '../public/index.js'
import type { ProcessBackend } from '../sandbox/backend.js'
import { decodeData as decode, type WireData } from '../schema/command.js'
import type { OptionTable } from '../schema/kind.js'
import { instanceOf } from './processes.js'

export function encodeData(data: Output<Encoding>): WireData {
  if (typeof data === 'string') return data
  return { base64: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') }
}

export function decodeData(json: WireData): string | Uint8Array {
  return decode(json, fromBase64)
}

/** The options in the body of a request. */
export function optionsOf(table: OptionTable, body: Record<string, unknown>): Record<string, unknown> {
  return decodeOptions(table, body, fromBase64)
}

function fromBase64(text: string): Uint8Array {
  return Buffer.from(text, 'base64')
}

/**
 * `all` is left out when it equals one of the two streams, which is usual: it would double the size of the response. It
 * is not even read then, since reading computes it.
 */
export function encodeResult(result: ExecResult<Encoding>): object {
  const { success, exitCode, signal, stdout, stderr, command, sessionId, cwd } = result
  const { duration, timestamp, timedOut, isCanceled, truncated, truncatedAt, sessionRestarted, denials } =
    result
  const { lostState } = result
  const isMixed = stdout.length > 0 && stderr.length > 0
  return {
    ...{ success, exitCode, signal, command, sessionId, cwd, duration, timestamp },
    ...{ timedOut, isCanceled, truncated, truncatedAt, sessionRestarted, denials },
    ...(lostState && { lostState }),
    stdout: encodeData(stdout),
    stderr: encodeData(stderr),
    ...(isMixed && { all: encodeData(result.all) }),
  }
}

export function encodeLogs({ stdout, stderr, truncated }: ProcessLogs<Encoding>): object {
  return {
    stdout: encodeData(stdout),
    stderr: encodeData(stderr),
    ...(truncated !== undefined && { truncated }),
  }
}

export function encodeLogEvent(event: LogEvent<Encoding>): object {
  return event.type === 'exit' ? event : { ...event, data: encodeData(event.data) }
}

/**
 * Dates become ISO 8601 by themselves. Unknown properties are left out. `state`: of the process, or of a service at
 * another time.
 */
export function encodeProcess(process: ProcessBackend, state: ProcessInfo = process.info): object {
  const { id, pid, command, sessionId, status, startTime, endTime, exitCode, signal, reason } = state
  const end = { ...(endTime && { endTime }), ...(reason && { reason }) }
  const instance = instanceOf(process)
  return { id, pid, instance, command, sessionId, status, startTime, exitCode, signal, ...end }
}

export function encodeJobRead({ raw, cursor, bytesFetched, status }: JobRead<Encoding>): object {
  return { raw: encodeData(raw), cursor, bytesFetched, status: encodeJobStatus(status) }
}

/** Unknown properties are left out, except for the exit code. */
export function encodeJobStatus({ signal, reason, endedAt, duration, ...status }: JobStatus): object {
  return {
    ...status,
    ...(signal && { signal }),
    ...(reason && { reason }),
    ...(endedAt && { endedAt }),
    ...(duration !== null && { duration }),
  }
}

export function encodeJobInfo({ createdAt, command, status, ...handle }: JobInfo): object {
  const known = command === null ? {} : { command }
  return { ...handle, createdAt: createdAt ?? '', ...known, status: encodeJobStatus(status) }
}
