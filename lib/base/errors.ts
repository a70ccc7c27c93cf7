/**
 * The errors that callers see, and the one table of their codes.
 *
 * A SandboxError reports what goes wrong at run time. A bad argument is an OptionError, which is a TypeError, so a mistake
 * in the calling program differs from a failed command. Both have a `code`.
 */

import type { FailureText } from './failure-text.js'
import { ownOnly } from './own.js'
import type {
  AddonErrorCode,
  ErrorKind,
  LostSandbox,
  MergeConflict,
  OptionErrorCode,
  SandboxErrorCode,
} from './types.js'

/** Every code of SandboxError, with its kind, its status for HTTP and its default message. */
const CODES: Record<SandboxErrorCode, [kind: ErrorKind, status: number, meaning: string]> = {
  ARCHIVE_REJECTED: ['failed', 422, 'the archive of a sandbox cannot be used'],
  BUDGET_EXCEEDED: ['limit', 422, 'the budget of the command, the session or the sandbox is used up'],
  CHANNEL_CLOSED: ['ended', 409, 'the channel of messages with the process is closed'],
  CHANNEL_FULL: ['limit', 409, 'too many messages wait until the process reads them'],
  CHECKPOINT_NOT_FOUND: ['not-found', 404, 'there is no such checkpoint'],
  COMMAND_FAILED: ['failed', 422, 'the command failed'],
  COMMAND_TIMEOUT: ['timeout', 408, 'the command ran longer than its timeout'],
  CONNECTION_FAILED: ['unavailable', 502, 'the server cannot be reached, or the connection broke'],
  CONTAINER_FAILED: ['unavailable', 502, 'the container engine cannot start the container'],
  CWD_NOT_FOUND: ['not-found', 400, 'the working directory does not exist'],
  DETACH_FAILED: ['conflict', 409, 'the command cannot become a process'],
  ENGINE_ERROR: ['internal', 500, 'the engine failed'],
  ENGINE_NOT_FOUND: ['unavailable', 502, 'no container engine answers'],
  FILE_EXISTS: ['conflict', 409, 'a file is in the way'],
  FILE_NOT_FOUND: ['not-found', 404, 'the file does not exist'],
  FILE_TOO_LARGE: ['limit', 413, 'the file is too large'],
  HELD: ['conflict', 423, 'another caller holds the session or the process'],
  HOST_ID_IN_USE: ['conflict', 409, 'another worker has this host id'],
  HOST_LOST: ['ended', 502, 'the host is lost'],
  IMAGE_UNAVAILABLE: ['unavailable', 502, 'the image is missing and cannot be pulled'],
  IMAGE_WITHOUT_BASH: ['unsupported', 502, 'the image has no bash'],
  INPUT_CLOSED: ['ended', 409, 'the input of the command or process is closed'],
  INVALID_ENV_NAME: ['option', 400, 'the variable cannot be changed in this session'],
  INVALID_MESSAGE: ['failed', 502, 'the process has sent something other than a message'],
  INVALID_PATH: ['option', 400, 'a file of the required kind cannot have this path'],
  IS_A_DIRECTORY: ['conflict', 409, 'the path is a directory'],
  ISOLATION_UNSUPPORTED: ['unsupported', 501, 'a rule of the isolation cannot be enforced on this machine'],
  JOB_ALREADY_EXISTS: ['conflict', 409, 'a job with this id already exists'],
  JOB_NOT_FOUND: ['not-found', 404, 'no job has this id'],
  JOB_RUNNING: ['conflict', 409, 'the job is still running'],
  LIMIT_UNSUPPORTED: ['unsupported', 501, 'the limit cannot be enforced on this machine'],
  MESSAGE_TOO_LARGE: ['limit', 413, 'the message is too large'],
  MOUNT_MISSING: ['unsupported', 502, 'the container does not have a directory of this machine'],
  NOT_A_DIRECTORY: ['conflict', 409, 'the path is not a directory'],
  NO_SPACE: ['limit', 507, 'the file system is full'],
  OUTPUT_LIMIT: ['limit', 422, 'the command printed more than its outputLimit'],
  PERMISSION_DENIED: ['denied', 403, 'the system denies access'],
  PORT_CLOSED: ['unavailable', 502, 'no program of the session takes connections on this port'],
  PORT_IN_USE: ['conflict', 409, 'the port of this machine is taken'],
  PROCESS_ALREADY_EXISTS: ['conflict', 409, 'a process with this id already exists'],
  PROCESS_EXITED_BEFORE_READY: ['failed', 500, 'the process ended before it was ready'],
  PROCESS_NOT_FOUND: ['not-found', 404, 'no process has this id'],
  PROCESS_READY_TIMEOUT: ['timeout', 408, 'the process was not ready in time'],
  PROCESS_WAIT_TIMEOUT: ['timeout', 408, 'the process did not end in time'],
  PROJECT_TOO_WIDE: ['denied', 502, 'the directory has everything of this user'],
  REQUEST_REFUSED: ['denied', 502, 'the server refused the request'],
  ROLLED_BACK: ['ended', 410, 'the sandbox was rolled back during the call'],
  RUNTIME_UNSUPPORTED: ['unsupported', 502, 'the container cannot run nacre'],
  SANDBOX_DESTROYED: ['ended', 503, 'the sandbox has been destroyed; create another one'],
  SANDBOX_IN_USE: ['conflict', 409, 'another program has the sandbox of this name open'],
  SANDBOX_LOST: ['ended', 502, 'the sandbox and everything in it is lost'],
  SANDBOX_NOT_READY: ['timeout', 502, 'the sandbox was not ready in time'],
  SESSION_ALREADY_EXISTS: ['conflict', 409, 'a session with this id already exists'],
  SESSION_DESTROYED: ['ended', 410, 'the session was deleted while the call was pending'],
  SESSION_NOT_FOUND: ['not-found', 404, 'no session has this id'],
  SESSION_TERMINATED: ['ended', 410, 'the session ended while the call was pending'],
  SPAWN_FAILED: ['unavailable', 500, 'a process could not be started'],
  STATE_DIR_UNAVAILABLE: ['unavailable', 500, 'the state directory cannot be used'],
  TERMINAL_UNAVAILABLE: ['unavailable', 409, 'the session cannot give its command a terminal'],
  VM_UNAVAILABLE: ['unavailable', 502, 'there cannot be a virtual machine here'],
  WORKSPACE_BUSY: ['conflict', 409, 'programs use the workspace, and cannot be stopped for the moment'],
  WORKSPACE_CONFLICT: ['conflict', 409, 'other programs have changed the real directory'],
  WORKSPACE_IN_USE: ['conflict', 409, 'a sandbox has this workspace open'],
  WORKSPACE_LOST: ['ended', 410, 'the layers of this workspace cannot be trusted'],
  WORKSPACE_NOT_ENABLED: ['unsupported', 409, 'the sandbox has no copy-on-write workspace'],
  WORKSPACE_UNSUPPORTED: ['unsupported', 501, 'this machine or directory allows no copy-on-write workspace'],
}

const statuses = Object.entries(CODES).map(([code, [, status]]) => [code, status])

/** The status of every code for HTTP. */
export const HTTP_STATUSES: Record<SandboxErrorCode | OptionErrorCode | 'ABORT_ERR', number> = {
  ABORT_ERR: 503,
  INVALID_COMMAND: 400,
  INVALID_ID: 400,
  INVALID_OPTION: 400,
  STREAM_LOCKED: 400,
  ...(Object.fromEntries(statuses) as Record<SandboxErrorCode, number>),
}

/** The status of a code for HTTP; 500 for one of a newer server that this one passes on. */
export function httpStatusOf(code: string): number {
  return Object.hasOwn(HTTP_STATUSES, code) ? HTTP_STATUSES[code as SandboxErrorCode] : 500
}

const KINDS = new Set<unknown>(['option', 'aborted', ...Object.values(CODES).map(([kind]) => kind)])

/** The kind that a server has named, if it is one. */
export function readKind(kind: unknown): ErrorKind | undefined {
  return KINDS.has(kind) ? (kind as ErrorKind) : undefined
}

interface RunErrorOptions extends ErrorOptions {
  /** The result of a command. */
  result?: object
  logTail?: string
  shortMessage?: string
  path?: string | undefined
  paths?: string[] | undefined
  conflicts?: MergeConflict[]
  lost?: LostSandbox
  /** Instead of that of the code: what a server has named. */
  kind?: ErrorKind | undefined
}

export class SandboxError extends Error {
  static {
    Object.defineProperty(SandboxError.prototype, 'name', { value: 'SandboxError' })
  }

  declare static readonly [Symbol.hasInstance]: (value: unknown) => value is SandboxError
  readonly code: SandboxErrorCode
  // biome-ignore lint/suspicious/noExplicitAny: the options of the call decide about its type.
  declare readonly result?: any
  declare readonly logTail?: string
  declare readonly path?: string
  declare readonly paths?: string[]
  declare readonly conflicts?: MergeConflict[]
  declare readonly lost?: LostSandbox
  /** The message without the lines of stderr below it. */
  readonly shortMessage: string
  readonly kind: ErrorKind

  constructor(code: SandboxErrorCode, message: string, options: RunErrorOptions = {}) {
    const own = ownOnly(options)
    super(message, own)
    this.code = code
    this.shortMessage = own.shortMessage ?? message
    // A newer server may have codes that are not known here.
    this.kind = own.kind ?? (isKnown(code) ? CODES[code][0] : 'internal')
    hide(this, 'shortMessage')
    attach(this, 'result', own.result)
    attach(this, 'logTail', own.logTail)
    if (own.path !== undefined) this.path = own.path
    if (own.paths !== undefined) this.paths = own.paths
    if (own.conflicts !== undefined) this.conflicts = own.conflicts
    if (own.lost !== undefined) this.lost = own.lost
  }
}

/** The error for a command that cannot become a process. */
export function notDetached(why: string): SandboxError {
  return new SandboxError('DETACH_FAILED', `the command cannot be detached: ${why}`)
}

/** A bad argument. */
export class OptionError extends TypeError {
  static {
    Object.defineProperty(OptionError.prototype, 'name', { value: 'OptionError' })
  }

  declare readonly name: 'OptionError'
  readonly code: OptionErrorCode
  readonly kind = 'option'

  constructor(code: OptionErrorCode, message: string, options: ErrorOptions = {}) {
    super(message, ownOnly(options))
    this.code = code
  }
}

/** The error for an argument that breaks a rule of its option, which the message names. */
export function invalidOption(message: string, options?: ErrorOptions): OptionError {
  return new OptionError('INVALID_OPTION', message, options)
}

/** The native addon could not be loaded. `cause` is the error of the loader. */
export class AddonError extends Error {
  static {
    Object.defineProperty(AddonError.prototype, 'name', { value: 'AddonError' })
  }

  declare readonly name: 'AddonError'
  readonly code: AddonErrorCode
  readonly kind = 'unavailable'

  constructor(code: AddonErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
  }
}

/** The rejection after an abort: `cause` is the signal's reason, `result` is set if the command had started. */
export class AbortError extends Error {
  static {
    Object.defineProperty(AbortError.prototype, 'name', { value: 'AbortError' })
  }

  declare static readonly [Symbol.hasInstance]: (value: unknown) => value is AbortError
  declare readonly name: 'AbortError'
  readonly code = 'ABORT_ERR'
  readonly kind = 'aborted'
  // biome-ignore lint/suspicious/noExplicitAny: the options of the call decide about its type.
  declare readonly result?: any
  readonly shortMessage: string

  /** `text` is the whole message, or the name of the aborted call. */
  constructor(reason: unknown, result?: object, text: FailureText | string = 'the command') {
    const { message, shortMessage } =
      typeof text === 'string'
        ? { message: `${text} was aborted`, shortMessage: `${text} was aborted` }
        : text
    super(message, { cause: reason })
    this.shortMessage = shortMessage
    hide(this, 'shortMessage')
    attach(this, 'result', result)
  }
}

/** The SandboxError for an error event of the engine. An unknown code becomes ENGINE_ERROR. */
export function engineError(
  code: string | undefined,
  message: string | undefined,
  options?: RunErrorOptions,
) {
  const known = isKnown(code) ? code : 'ENGINE_ERROR'
  return new SandboxError(known, message || meaningOf(known), options)
}

const PLURALS = { job: 'jobs', process: 'processes', session: 'sessions' }

/** The error for an id that nothing has. */
export function unknownId(kind: keyof typeof PLURALS, id: string): SandboxError {
  const code = `${kind.toUpperCase() as Uppercase<typeof kind>}_NOT_FOUND` as const
  return new SandboxError(code, `there is no ${kind} '${id}'; list the ${PLURALS[kind]} to see their ids`)
}

/** The default message of a code. */
export function meaningOf(code: SandboxErrorCode): string {
  return CODES[code][2]
}

function isKnown(code: string | undefined): code is SandboxErrorCode {
  return code !== undefined && Object.hasOwn(CODES, code)
}

/** Hides a property from `console.log(error)` when the message already has its content. */
function hide(error: Error, name: string): void {
  Object.defineProperty(error, name, { enumerable: false })
}

/** Sets a property that only failed runs have, hidden from `console.log(error)`: it can be megabytes. */
function attach(error: Error, name: string, value: unknown): void {
  if (value !== undefined) Object.defineProperty(error, name, { value, enumerable: false })
}

/** Whether an error is a SandboxError with any of these codes. */
export function isCode(error: unknown, ...codes: SandboxErrorCode[]): error is SandboxError {
  return error instanceof SandboxError && codes.includes(error.code)
}

/** Settles like the promise, but resolves with undefined instead of rejecting with any of these codes. */
export async function ignoring<T>(promise: Promise<T>, ...codes: SandboxErrorCode[]): Promise<T | undefined> {
  try {
    return await promise
  } catch (error) {
    if (!isCode(error, ...codes)) throw error
    return undefined
  }
}
