/**
 * An upload in parts, which survives broken connections: each part has its offset, so the server writes none twice.
 */

import { abortable } from '../../base/abort.js'
import { performance } from '../../base/timers.js'
import { inTime } from '../../base/waiting.js'
import type { FileInfo } from '../../calls/index.js'
import * as endpoints from '../../protocol/endpoints.js'
import { MOST_KEEP_MS } from '../../protocol/keep.js'
import type { FileWritePlan } from '../../requests/files.js'
import { Bytes } from './collected.js'
import type { Connection } from './connection.js'

/** Bytes of a part. */
export const PART_BYTES = 4 * 1024 * 1024
/** Milliseconds after which a part is sent in any case: the server ends an upload that is silent for `KEEP_MS`. */
const LONGEST_WAIT_MS = 10_000
const KEEP_MS = 60_000

export async function uploadInParts(
  connection: Connection,
  sessionId: string,
  target: object,
  source: AsyncIterator<Uint8Array>,
  signal: FileWritePlan['signal'],
): Promise<FileInfo> {
  const subject = 'the write'
  const asked = { signal, subject }
  const body = { ...target, keep: Math.min(KEEP_MS + connection.reconnectTimeout, MOST_KEEP_MS) }
  const uploadId = await connection.call(endpoints.beginUpload, { ...asked, params: { sessionId }, body })
  const params = { uploadId }
  try {
    let offset = 0
    for await (const part of parts(source, signal, subject)) {
      const request = { ...asked, params, query: { offset }, content: part, isIdempotent: true }
      await connection.call(endpoints.uploadPart, request)
      offset += part.length
    }
    return await connection.call(endpoints.endUpload, { ...asked, params })
  } catch (error) {
    connection.call(endpoints.cancelUpload, { params }).catch(() => {})
    throw error
  }
}

/** The chunks of a source in parts; an empty one when the source is slow, so that the server keeps the upload. */
async function* parts(
  source: AsyncIterator<Uint8Array>,
  signal: AbortSignal | undefined,
  subject: string,
): AsyncGenerator<Uint8Array> {
  let part = new Bytes(PART_BYTES)
  let deadline = performance.now() + LONGEST_WAIT_MS
  const beginPart = () => {
    part = new Bytes(PART_BYTES)
    deadline = performance.now() + LONGEST_WAIT_MS
  }
  let next = source.next()
  let isOver = false
  try {
    while (!isOver) {
      const step = (await abortable(inTime(deadline - performance.now(), next), signal, subject))?.value
      if (step === undefined) {
        yield part.whole()
        beginPart()
      } else if (step.done) {
        isOver = true
      } else {
        for (let start = 0; start < step.value.length; start += PART_BYTES) {
          const piece = step.value.subarray(start, start + PART_BYTES)
          if (part.length + piece.length > PART_BYTES) {
            yield part.whole()
            beginPart()
          }
          part.add(piece)
        }
        next = source.next()
      }
    }
    if (part.length > 0) yield part.whole()
  } finally {
    if (!isOver) Promise.resolve(source.return?.()).catch(() => {})
  }
}
