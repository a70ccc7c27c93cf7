/**
 * From an error to the envelope that a client gets: `{ code, message, context, httpStatus, timestamp }`.
 *
 * There are two tables. Clients of a sandbox container know only the codes of that container. Clients of `/v1` get
 * nacre's own codes, and the other properties of an error in `context`, so that they can throw the same error.
 */

import type { ErrorKind } from 'nacre'
import { AbortError, OptionError, SandboxError } from 'nacre/internal'
import { HTTP_STATUSES, httpStatusOf, meaningOf, tables } from 'nacre/internal/server'
import { RequestError } from './request-json.js'
import { encodeReply } from './wire.js'

/** Codes of the server itself, with their kinds and statuses. */
const REFUSALS = {
  VALIDATION_FAILED: ['option', 400],
  UNAUTHORIZED: ['denied', 401],
  FORBIDDEN: ['denied', 403],
  NOT_FOUND: ['not-found', 404],
  CALLER_NOT_FOUND: ['not-found', 404],
  RUN_NOT_FOUND: ['not-found', 404],
  UPLOAD_NOT_FOUND: ['not-found', 404],
  CALL_FORGOTTEN: ['ended', 409],
  CALL_MISMATCH: ['conflict', 422],
  INSTANCE_CHANGED: ['ended', 412],
  PAYLOAD_TOO_LARGE: ['limit', 413],
  REPLY_TOO_LARGE: ['limit', 500],
  UNSUPPORTED_MEDIA_TYPE: ['option', 415],
  UPGRADE_REQUIRED: ['option', 426],
  INTERNAL_ERROR: ['internal', 500],
  BAD_GATEWAY: ['unavailable', 502],
  OVERLOADED: ['unavailable', 503],
  SHUTTING_DOWN: ['unavailable', 503],
} as const

/** The message of the refusal of that name. */
export const SHUTTING_DOWN = 'the server is shutting down, and nothing was started: try again when it is back'

/** Why commands are aborted when the server ends. Clients get its message: they did not abort these. */
export class ServerEnd extends Error {
  constructor() {
    super('the server ends')
  }
}

export type RefusalCode = keyof typeof REFUSALS

/** Every code with its status for the container's clients. */
export const STATUSES: Record<string, number> = {
  ...HTTP_STATUSES,
  ...Object.fromEntries(Object.entries(REFUSALS).map(([code, [, status]]) => [code, status])),
}

/** What the container's clients receive instead of a code that they do not know. */
const CONTAINER_CODES: Record<string, { code: string; status: number }> = {
  ABORT_ERR: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  COMMAND_FAILED: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  CWD_NOT_FOUND: { code: 'VALIDATION_FAILED', status: 400 },
  ENGINE_ERROR: { code: 'INTERNAL_ERROR', status: 500 },
  INVALID_ENV_NAME: { code: 'VALIDATION_FAILED', status: 400 },
  INVALID_ID: { code: 'VALIDATION_FAILED', status: 400 },
  INVALID_OPTION: { code: 'VALIDATION_FAILED', status: 400 },
  ISOLATION_UNSUPPORTED: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  LIMIT_UNSUPPORTED: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  ROLLED_BACK: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  SANDBOX_DESTROYED: { code: 'INTERNAL_ERROR', status: 500 },
  SPAWN_FAILED: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  STATE_DIR_UNAVAILABLE: { code: 'INTERNAL_ERROR', status: 500 },
  WORKSPACE_IN_USE: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  WORKSPACE_LOST: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
  WORKSPACE_UNSUPPORTED: { code: 'COMMAND_EXECUTION_ERROR', status: 500 },
}

/** Their messages can name files of this machine, so only the logger receives them. */
const PRIVATE = new Set(['ENGINE_ERROR', 'STATE_DIR_UNAVAILABLE', 'SPAWN_FAILED'])

/** The server does not do what a request wants. */
export class Refusal extends Error {
  readonly code: RefusalCode
  readonly context: object
  /** Headers of the response. */
  readonly headers: Record<string, string>

  constructor(
    code: RefusalCode,
    message: string,
    context: object = {},
    headers: Record<string, string> = {},
  ) {
    super(message)
    this.code = code
    this.context = context
    this.headers = headers
  }

  get kind(): ErrorKind {
    return REFUSALS[this.code][0]
  }

  get status(): number {
    return REFUSALS[this.code][1]
  }
}

export interface Envelope {
  code: string
  message: string
  context: Record<string, unknown>
  httpStatus: number
  timestamp: string
}

/** The kind of client, known from the path. */
export type Dialect = 'container' | 'v1'

export function dialectOf(path: string): Dialect {
  return path.startsWith('/v1/') ? 'v1' : 'container'
}

/** The envelope. `subject` has the ids that the request was about: of sessions, processes, jobs. */
export function envelope(error: unknown, dialect: Dialect, subject: object = {}): Envelope {
  const { code, message, status, context } = describe(error, dialect)
  return {
    code,
    message,
    context: { ...subject, ...context },
    httpStatus: status,
    timestamp: new Date().toISOString(),
  }
}

/** Whether it is a fault of the server: the client gets few details, and the logger the rest. */
export function isOurFault(error: unknown): boolean {
  if (error instanceof Refusal || error instanceof OptionError || error instanceof AbortError) return false
  return !(error instanceof SandboxError) || PRIVATE.has(error.code)
}

interface Description {
  code: string
  message: string
  status: number
  context: object
}

function describe(error: unknown, dialect: Dialect): Description {
  if (error instanceof Refusal) {
    const { code, message, status, kind } = error
    return { code, message, status, context: { ...(dialect === 'v1' && { kind }), ...error.context } }
  }
  if (error instanceof OptionError || error instanceof SandboxError || error instanceof AbortError)
    return dialect === 'v1' ? own(error) : container(error)
  return {
    code: 'INTERNAL_ERROR',
    message: 'an internal error',
    status: 500,
    context: dialect === 'v1' ? { kind: 'internal' } : {},
  }
}

type SandboxFailure = OptionError | SandboxError | AbortError

/** Not what another module has added to Object.prototype. */
function ownValue<K extends 'result' | 'logTail' | 'path' | 'paths'>(
  error: SandboxFailure,
  name: K,
): SandboxError[K] | undefined {
  return Object.hasOwn(error, name) ? (error as SandboxError)[name] : undefined
}

/**
 * 408 becomes 504: browsers repeat a request that was answered with 408 on a reused connection, and a command must not
 * run twice.
 */
function own(error: SandboxFailure): Description {
  const { code } = error
  const usual = httpStatusOf(code)
  const status = usual === 408 ? 504 : usual
  const result = ownValue(error, 'result')
  const logTail = ownValue(error, 'logTail')
  const path = ownValue(error, 'path')
  const paths = ownValue(error, 'paths')
  const shortMessage = error instanceof OptionError ? error.message : error.shortMessage
  const reason =
    error instanceof AbortError && error.cause instanceof ServerEnd ? error.cause.message : undefined
  const because = reason === undefined ? '' : `${reason}: `
  return {
    code,
    message: because + publicMessage(error),
    status,
    context: {
      name: error instanceof OptionError ? 'OptionError' : error.name,
      kind: error.kind,
      ...issuesOf(error),
      ...(result && { result: encodeReply(tables.execResult, result) }),
      ...(logTail !== undefined && { logTail }),
      ...(path !== undefined && { path }),
      ...(paths !== undefined && { paths }),
      ...(shortMessage !== error.message && { shortMessage: because + shortMessage }),
      ...(reason !== undefined && { reason }),
    },
  }
}

function container(error: SandboxFailure): Description {
  const known = { code: error.code, status: httpStatusOf(error.code) }
  const { code, status } = CONTAINER_CODES[error.code] ?? known
  const exitCode = ownValue(error, 'result')?.exitCode
  return {
    code,
    message: publicMessage(error),
    status,
    context: error.code === 'SESSION_TERMINATED' ? { exitCode: exitCode ?? null } : issuesOf(error),
  }
}

function issuesOf(error: SandboxFailure): object {
  return error instanceof RequestError ? { issues: error.issues } : {}
}

function publicMessage(error: SandboxFailure): string {
  return error instanceof SandboxError && PRIVATE.has(error.code) ? meaningOf(error.code) : error.message
}
