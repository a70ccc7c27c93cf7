/**
 * Uploads in parts, for clients whose calls survive their connections.
 */

import { kinds, plans } from 'nacre/internal'
import { endpoints, protocol, tables } from 'nacre/internal/server'
import { collect } from '../body-limit.js'
import type { ServerContext } from '../context.js'
import { Refusal } from '../failure.js'
import { queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { filesOf } from './file-values.js'

/** Bytes of one part. */
const MOST_PART_BYTES = 8 * 1024 * 1024

const { mode, append } = tables.fileWriteOptions
const errors = ['UPLOAD_NOT_FOUND', 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'IS_A_DIRECTORY', 'NO_SPACE']

export function addUploads(define: Define, { backend, uploads }: ServerContext): void {
  define({
    ...endpoints.beginUpload,
    summary: 'Begins an upload in parts. It ends after `keep` milliseconds without a request.',
    errors: ['SESSION_NOT_FOUND', 'INVALID_PATH'],
    body: shape({ path: kinds.data, mode, append, keep: kinds.count(1, protocol.MOST_KEEP_MS) }, [
      'path',
      'keep',
    ]),
    async handle({ params: { sessionId }, body: { path, keep, ...options } }) {
      const files = await filesOf(backend, sessionId)
      return uploads.begin(keep, async (source, signal) =>
        files.write(plans.planFileWrite(path, source, { ...options, signal })),
      )
    },
  })
  define({
    ...endpoints.uploadPart,
    summary: 'Sends a part of at most 8 MiB. A part that has already arrived is not written again.',
    errors: [...errors, 'PAYLOAD_TOO_LARGE'],
    query: shape({ offset: queryNumber }, ['offset']),
    upload: true,
    async handle({ params: { uploadId }, query: { offset }, upload, signal }) {
      const data = await collect(upload ?? [], MOST_PART_BYTES, tooLarge)
      await uploads.part(uploadId, offset, data, signal)
    },
  })
  define({
    ...endpoints.endUpload,
    summary: 'Completes an upload. Its file replaces the old file.',
    errors,
    handle: async ({ params }) => uploads.end(params.uploadId),
  })
  define({
    ...endpoints.cancelUpload,
    summary: 'Cancels an upload and discards its file.',
    errors: ['UPLOAD_NOT_FOUND'],
    handle: async ({ params }) => uploads.cancel(params.uploadId),
  })
}

function tooLarge(): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', `a part has at most ${MOST_PART_BYTES} bytes`)
}
