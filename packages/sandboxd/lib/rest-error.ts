/**
 * From an error to the response of the REST API: `{ code, message }`, with the codes of gRPC.
 */
import { Refusal } from '@nacre/server/internal'
import { AbortError } from 'nacre/internal'
import { describe } from './error-codes.js'
import { Refused } from './status.js'

const STATUSES = {
  INVALID_ARGUMENT: 400,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  INTERNAL: 500,
  UNAVAILABLE: 503,
  RESOURCE_EXHAUSTED: 507,
} as const

export type RestCode = keyof typeof STATUSES

const OWN = {
  FILE_EXISTS: 'CONFLICT',
  FILE_TOO_LARGE: 'INVALID_ARGUMENT',
  IS_A_DIRECTORY: 'INVALID_ARGUMENT',
} as const

/** A request that is refused. */
export class RestRefusal extends Error {
  readonly code: RestCode
  readonly headers: Record<string, string>

  constructor(code: RestCode, message: string, headers: Record<string, string> = {}) {
    super(message)
    this.code = code
    this.headers = headers
  }
}

export interface RestFailure {
  status: number
  body: { code: string; message: string }
  headers: Record<string, string>
}

export function failureOf(error: unknown): RestFailure {
  const [code, message] = codeOf(error)
  const headers = error instanceof RestRefusal ? error.headers : {}
  return { status: STATUSES[code], body: { code, message }, headers }
}

function isRestCode(code: string): code is RestCode {
  return Object.hasOwn(STATUSES, code)
}

function codeOf(error: unknown): [RestCode, string] {
  if (error instanceof RestRefusal) return [error.code, error.message]
  if (error instanceof Refusal) return ['PERMISSION_DENIED', error.message]
  if (error instanceof Refused) return [isRestCode(error.status) ? error.status : 'INTERNAL', error.message]
  if (error instanceof AbortError) return ['UNAVAILABLE', error.message]
  return describe(error, OWN)
}
