/** Errors as replies: of the API with an HTTP status, of calls with a code of Connect. */
import { Refusal } from '@nacre/server/internal'
import { OptionError, SandboxError } from 'nacre/internal'

/** The codes of Connect, with the HTTP status of each. */
export const RPC_STATUS = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  data_loss: 500,
  unauthenticated: 401,
} as const

export type RpcCode = keyof typeof RPC_STATUS

/** Why a call fails. */
export class RpcError extends Error {
  readonly code: RpcCode

  constructor(code: RpcCode, message: string) {
    super(message)
    this.code = code
  }
}

/** Why a request fails. */
export class HttpError extends Error {
  readonly status: number
  /** For APIs that name their errors. */
  readonly code: string | undefined

  constructor(status: number, message: string, code?: string) {
    super(message)
    this.status = status
    this.code = code
  }
}

const OF_FILES: Record<string, RpcCode> = {
  FILE_NOT_FOUND: 'not_found',
  FILE_EXISTS: 'already_exists',
  PERMISSION_DENIED: 'permission_denied',
  NOT_A_DIRECTORY: 'invalid_argument',
  IS_A_DIRECTORY: 'invalid_argument',
  INVALID_PATH: 'invalid_argument',
  CWD_NOT_FOUND: 'invalid_argument',
  FILE_TOO_LARGE: 'resource_exhausted',
  NO_SPACE: 'resource_exhausted',
  SANDBOX_DESTROYED: 'unavailable',
}

/** The failure of nacre as an error of a call. */
export function rpcError(error: unknown): RpcError {
  if (error instanceof RpcError) return error
  if (error instanceof HttpError && error.status === 413)
    return new RpcError('resource_exhausted', error.message)
  if (error instanceof OptionError) return new RpcError('invalid_argument', error.message)
  if (error instanceof SandboxError)
    return new RpcError(OF_FILES[error.code] ?? 'internal', error.shortMessage)
  if (error instanceof SyntaxError) return new RpcError('invalid_argument', `no JSON: ${error.message}`)
  return new RpcError('internal', error instanceof Error ? error.message : String(error))
}

const OF_REQUESTS: Partial<Record<RpcCode, number>> = {
  invalid_argument: 400,
  permission_denied: 403,
  not_found: 404,
  resource_exhausted: 507,
  unavailable: 502,
}

/** The same as an error of a request. */
export function httpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  if (error instanceof Refusal) return new HttpError(error.status, error.message)
  const { code, message } = rpcError(error)
  return new HttpError(OF_REQUESTS[code] ?? 500, message)
}
