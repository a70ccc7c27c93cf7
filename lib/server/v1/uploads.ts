/**
 * Uploads in parts, for clients whose calls survive their connections.
 */
import { z } from '@hono/zod-openapi'
import { MOST_KEEP_MS } from '../../protocol/keep.js'
import * as replies from '../../protocol/replies.js'
import { planFileWrite } from '../../requests/files.js'
import { collect } from '../body-limit.js'
import type { ServerContext } from '../context.js'
import { Refusal } from '../failure.js'
import type { Define } from '../route.js'
import { dataSchema, queryNumber, sessionParams, strictObject } from '../schemas.js'
import { decodeData } from '../wire.js'
import { filesOf } from './file-values.js'

/** Bytes of one part. */
const MOST_PART_BYTES = 8 * 1024 * 1024

const tag = 'files'
const params = z.object({ uploadId: z.string() })
const errors = ['UPLOAD_NOT_FOUND', 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'IS_A_DIRECTORY', 'NO_SPACE']

export function addUploads(define: Define, { backend, uploads }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/sessions/{sessionId}/files/uploads',
    summary: 'Begins an upload in parts. It ends after `keep` milliseconds without a request.',
    ...{ tag, errors: ['SESSION_NOT_FOUND', 'INVALID_PATH'] },
    params: sessionParams,
    body: strictObject({
      path: dataSchema,
      mode: z.number().optional(),
      append: z.boolean().optional(),
      keep: z.number().int().min(1).max(MOST_KEEP_MS),
    }),
    reply: replies.upload,
    async handle({ params: { sessionId }, body: { path, keep, ...options } }) {
      const files = await filesOf(backend, sessionId)
      const target = decodeData(path)
      const uploadId = uploads.begin(keep, async (source, signal) =>
        files.write(planFileWrite(target, source, { ...options, signal })),
      )
      return { uploadId }
    },
  })
  define({
    method: 'put',
    path: '/v1/uploads/{uploadId}',
    summary: 'Sends a part of at most 8 MiB. A part that has already arrived is not written again.',
    ...{ tag, params, errors: [...errors, 'PAYLOAD_TOO_LARGE'] },
    query: strictObject({ offset: queryNumber }),
    upload: true,
    patient: true,
    reply: replies.empty,
    async handle({ params: { uploadId }, query: { offset }, upload, signal }) {
      const data = await collect(upload ?? [], MOST_PART_BYTES, tooLarge)
      await uploads.part(uploadId, offset, data, signal)
      return {}
    },
  })
  define({
    method: 'post',
    path: '/v1/uploads/{uploadId}/end',
    summary: 'Completes an upload. Its file replaces the old file.',
    ...{ tag, params, errors },
    patient: true,
    reply: replies.fileInfo,
    async handle({ params: { uploadId } }) {
      return uploads.end(uploadId)
    },
  })
  define({
    method: 'delete',
    path: '/v1/uploads/{uploadId}',
    summary: 'Cancels an upload and discards its file.',
    ...{ tag, params, errors: ['UPLOAD_NOT_FOUND'] },
    reply: replies.empty,
    async handle({ params: { uploadId } }) {
      uploads.cancel(uploadId)
      return {}
    },
  })
}

function tooLarge(): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', `a part has at most ${MOST_PART_BYTES} bytes`)
}
