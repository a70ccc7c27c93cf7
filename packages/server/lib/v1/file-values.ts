/** Files in requests. Paths are text, or base64 where they are not UTF-8. */

import type { FilePath } from 'nacre'
import { kinds, OptionError } from 'nacre/internal'
import type { backends } from 'nacre/internal/server'
import { anyText } from '../parameters.js'
import { requireSession } from './sessions.js'

/** The query parameters that name a file. */
export const pathQuery = {
  path: { ...anyText, description: 'The path of the file, relative to the directory of the session.' },
  pathBase64: {
    ...kinds.base64,
    description: 'The bytes of the path in base64, instead of `path`, for names that are not UTF-8.',
  },
}

interface PathQuery {
  path?: string | undefined
  pathBase64?: string | undefined
}

/** Throws OptionError when the file is not named and there is no default. */
export function pathOf({ path, pathBase64 }: PathQuery, otherwise?: string): FilePath {
  if (path !== undefined && pathBase64 !== undefined)
    throw new OptionError('INVALID_OPTION', 'path and pathBase64 exclude each other')
  const given = pathBase64 === undefined ? path : Uint8Array.from(Buffer.from(pathBase64, 'base64'))
  if (given !== undefined) return given
  if (otherwise !== undefined) return otherwise
  throw new OptionError('INVALID_OPTION', 'path: is missing; give path or pathBase64')
}

/** Rejects with SESSION_NOT_FOUND. */
export async function filesOf(backend: backends.Backend, sessionId: string): Promise<backends.FilesBackend> {
  return backend.files(await requireSession(backend, sessionId))
}
