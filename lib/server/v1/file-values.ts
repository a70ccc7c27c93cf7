/** Files in requests and replies. Paths are text, or base64 where they are not UTF-8. */
import { z } from '@hono/zod-openapi'
import type { FileEvent, FileInfo, FilePath } from '../../public/index.js'
import type { Backend, FilesBackend } from '../../sandbox/backend.js'
import { Refusal } from '../failure.js'
import { timestamp } from '../schemas.js'
import { requireSession } from './sessions.js'

export const fileSchema = z
  .object({
    path: z.string(),
    pathBase64: z.string().optional(),
    name: z.string(),
    type: z.enum(['file', 'directory', 'symlink', 'other']),
    size: z.number(),
    mode: z.number(),
    modified: timestamp,
    target: z.string().optional(),
  })
  .openapi('File')

/** The query parameters that name a file. */
export const pathQuery = {
  path: z
    .string()
    .optional()
    .openapi({ description: 'The path of the file, relative to the directory of the session.' }),
  pathBase64: z.base64().optional().openapi({
    description: 'The bytes of the path in base64, instead of `path`, for names that are not UTF-8.',
  }),
}

interface PathQuery {
  path?: string | undefined
  pathBase64?: string | undefined
}

/** Throws VALIDATION_FAILED when the file is not named and there is no default. */
export function pathOf({ path, pathBase64 }: PathQuery, otherwise?: string): FilePath {
  if (path !== undefined && pathBase64 !== undefined)
    throw new Refusal('VALIDATION_FAILED', 'path and pathBase64 exclude each other')
  const given = pathBase64 === undefined ? path : Uint8Array.from(Buffer.from(pathBase64, 'base64'))
  if (given !== undefined) return given
  if (otherwise !== undefined) return otherwise
  throw new Refusal('VALIDATION_FAILED', 'path: is missing; give path or pathBase64')
}

/** Rejects with SESSION_NOT_FOUND. */
export async function filesOf(backend: Backend, sessionId: string): Promise<FilesBackend> {
  return backend.files(await requireSession(backend, sessionId))
}

export function encodeFile({ pathBytes, modified, ...info }: FileInfo): object {
  return { ...info, ...(pathBytes && { pathBase64: base64(pathBytes) }), modified: modified.toISOString() }
}

export function encodeFileEvent({ pathBytes, oldPathBytes, ...event }: FileEvent): { type: string } {
  return {
    ...event,
    ...(pathBytes && { pathBase64: base64(pathBytes) }),
    ...(oldPathBytes && { oldPathBase64: base64(oldPathBytes) }),
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64')
}
