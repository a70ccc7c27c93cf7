/** Answers to readers of logs, as they are published in Redis: a line of JSON, and bytes. */
import type { JobStatus } from 'nacre'

/** Bytes in one answer. A reader has one request at a time, so this bounds what Redis holds for it. */
export const MOST_BYTES = 256 * 1024
/** Milliseconds that a host waits for news before it answers that there is none. */
export const NEWS_MS = 5000

export interface LogAnswer {
  /** The number of the request. */
  call: number
  status?: JobStatus
  /** Nothing comes after the bytes. */
  atEnd?: boolean
  /** Why the host cannot answer. */
  error?: { code: string; message: string }
}

export function encodeAnswer(answer: LogAnswer, bytes: Uint8Array = new Uint8Array()): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(answer)}\n`), bytes])
}

/** undefined for what is no answer. */
export function decodeAnswer(message: Buffer): { answer: LogAnswer; bytes: Buffer } | undefined {
  const end = message.indexOf(0x0a)
  if (end < 0) return undefined
  try {
    const answer = JSON.parse(message.toString('utf8', 0, end)) as LogAnswer
    if (typeof answer?.call !== 'number') return undefined
    const { status } = answer
    if (status !== undefined && status.endTime !== null) status.endTime = new Date(status.endTime)
    return { answer, bytes: message.subarray(end + 1) }
  } catch {
    return undefined
  }
}
