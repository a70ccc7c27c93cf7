/**
 * What the gRPC service and the REST API report alike: the code and the message of an error of the engine.
 */

import type { SandboxErrorCode } from 'nacre'
import { OptionError, SandboxError } from 'nacre/internal'
import { meaningOf } from 'nacre/internal/server'

const SHARED = {
  FILE_NOT_FOUND: 'NOT_FOUND',
  INVALID_PATH: 'INVALID_ARGUMENT',
  NOT_A_DIRECTORY: 'INVALID_ARGUMENT',
  NO_SPACE: 'RESOURCE_EXHAUSTED',
  PERMISSION_DENIED: 'PERMISSION_DENIED',
  SANDBOX_DESTROYED: 'UNAVAILABLE',
  SESSION_DESTROYED: 'UNAVAILABLE',
} as const

type SharedCode = (typeof SHARED)[keyof typeof SHARED] | 'INTERNAL'

/** `own` has the codes that only one of the two APIs uses. An error without a code is INTERNAL, without its details. */
export function describe<Code extends string>(
  error: unknown,
  own: Partial<Record<SandboxErrorCode, Code>>,
): [Code | SharedCode, string] {
  if (error instanceof OptionError) return ['INVALID_ARGUMENT', error.message]
  if (!(error instanceof SandboxError)) return ['INTERNAL', 'an internal error']
  const shared: Partial<Record<SandboxErrorCode, SharedCode>> = SHARED
  const code = own[error.code] ?? shared[error.code]
  return code === undefined ? ['INTERNAL', meaningOf(error.code)] : [code, error.message]
}
