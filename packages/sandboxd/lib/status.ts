/**
 * From an error to the status of a gRPC call.
 */
import { describe } from './error-codes.js'

/** The status codes of gRPC that are used here. */
export const STATUS = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
} as const

export type StatusName = keyof typeof STATUS

const OWN = {
  CWD_NOT_FOUND: 'NOT_FOUND',
  INPUT_CLOSED: 'FAILED_PRECONDITION',
  INVALID_ENV_NAME: 'INVALID_ARGUMENT',
  ISOLATION_UNSUPPORTED: 'FAILED_PRECONDITION',
  LIMIT_UNSUPPORTED: 'FAILED_PRECONDITION',
  PROCESS_NOT_FOUND: 'NOT_FOUND',
} as const

/** Details cross the network as a header. */
const MOST_CHARACTERS = 1000

/** A call that is refused. */
export class Refused extends Error {
  readonly status: StatusName

  constructor(status: StatusName, message: string) {
    super(message)
    this.status = status
  }
}

/** The status, and whether the error is a fault of this server, so that the logger gets what the caller does not. */
export function statusOf(error: unknown): { code: number; details: string; isOurFault: boolean } {
  const [name, message] = nameOf(error)
  // Half a surrogate pair could not be encoded.
  const details = Buffer.from(message.slice(0, MOST_CHARACTERS)).toString()
  return { code: STATUS[name], details, isOurFault: name === 'INTERNAL' }
}

function nameOf(error: unknown): [StatusName, string] {
  if (error instanceof Refused) return [error.status, error.message]
  return describe(error, OWN)
}
