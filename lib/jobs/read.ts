/**
 * One read of a job's output, for any backend: fetch, cut, decode.
 */

import { decodeText } from '../base/text.js'
import type { Encoding, JobRead, JobStatus } from '../calls/index.js'
import type { JobReadPlan } from '../requests/jobs.js'
import { deliverable, LONGEST_CHARACTER } from './cut.js'

/** What a backend fetches: the status first, then bytes from an offset on. */
export interface Fetched {
  status: JobStatus
  bytes: Buffer
  /** Nothing follows them. */
  atEnd: boolean
}

export type Fetch = (cursor: number, maxBytes: number) => Promise<Fetched>

/** The bytes read, and how far the backend has looked: output beyond `seen` is new. */
export interface Reading {
  read: JobRead<Encoding>
  seen: number
}

export async function readJob(fetch: Fetch, cursor: number, plan: JobReadPlan): Promise<Reading> {
  const { lines, encoding } = plan
  const text = encoding === 'utf8'
  let { maxBytes } = plan
  let fetched = await fetch(cursor, maxBytes)
  let length = cut()
  if (length === 0 && text && fetched.bytes.length === maxBytes && maxBytes < LONGEST_CHARACTER) {
    // Not even one character fits. It is returned whole; otherwise no reader would ever get past it.
    maxBytes = LONGEST_CHARACTER
    fetched = await fetch(cursor, maxBytes)
    length = Math.min(cut(), firstCharacterLength(fetched.bytes))
  }
  const bytes = fetched.bytes.subarray(0, length)
  return {
    read: {
      raw: text ? await decodeText(bytes) : bytes,
      cursor: cursor + length,
      bytesFetched: length,
      status: fetched.status,
    },
    seen: cursor + fetched.bytes.length,
  }

  function cut(): number {
    // Processes that outlive the command may still write.
    const ended = !fetched.status.alive
    const full = fetched.bytes.length >= maxBytes
    return deliverable({ bytes: fetched.bytes, atEnd: fetched.atEnd, ended, full }, { lines, text })
  }
}

function firstCharacterLength(bytes: Buffer): number {
  const [first = ''] = bytes.toString('utf8')
  return first === '\u{FFFD}' ? bytes.length : Buffer.byteLength(first)
}
