/** Errors as the SDKs of Daytona read them. */
import type { IncomingMessage } from 'node:http'
import { SandboxError } from 'nacre/internal'
import { HttpError, httpError, RpcError } from '../failure.js'

/** By their codes, the SDKs choose the classes of errors. */
const OF_FILES: Record<string, [status: number, code: string]> = {
  FILE_NOT_FOUND: [404, 'FILE_NOT_FOUND'],
  PERMISSION_DENIED: [403, 'FILE_ACCESS_DENIED'],
  NOT_A_DIRECTORY: [400, 'INVALID_FILE_PATH'],
  IS_A_DIRECTORY: [400, 'INVALID_FILE_PATH'],
  INVALID_PATH: [400, 'INVALID_FILE_PATH'],
}

export function daytonaError(error: unknown): HttpError {
  if (error instanceof SandboxError) {
    const [status, code] = OF_FILES[error.code] ?? []
    if (status !== undefined) return new HttpError(status, error.shortMessage, code)
    if (error.code === 'SANDBOX_DESTROYED') return new HttpError(400, 'the sandbox is not started')
    if (error.code === 'FILE_EXISTS') return new HttpError(409, error.shortMessage)
  }
  if (error instanceof RpcError && error.code === 'not_found')
    return new HttpError(404, error.message, 'FILE_NOT_FOUND')
  return httpError(error)
}

export function describeError(
  { status, message, code }: HttpError,
  { url = '', method }: Pick<IncomingMessage, 'url' | 'method'>,
) {
  return {
    statusCode: status,
    message,
    ...(code === undefined ? {} : { code }),
    source: url.startsWith('/toolbox/') ? 'DAYTONA_DAEMON' : 'DAYTONA_API',
    path: url.split('?', 1)[0],
    method,
    timestamp: new Date().toISOString(),
  }
}

export function unsupported({ method, url = '' }: Pick<IncomingMessage, 'url' | 'method'>): HttpError {
  return new HttpError(501, `nacre does not support ${method} ${url.split('?', 1)[0]}`)
}
