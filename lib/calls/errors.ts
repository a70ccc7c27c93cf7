/** The errors of all calls. */

import type { Encoding } from './command.js'
import type { ExecResult } from './exec.js'

/**
 * Codes of {@link SandboxError}. CONNECTION_FAILED, REQUEST_REFUSED, SANDBOX_LOST and SANDBOX_NOT_READY come from
 * `nacre/client`, `nacre/engine` and `@nacre/fleet` only, HOST_LOST and HOST_ID_IN_USE from `@nacre/queue`. Those of containers
 * and images, ENGINE_NOT_FOUND, MOUNT_MISSING, PROJECT_TOO_WIDE and RUNTIME_UNSUPPORTED come from `openSandbox`.
 */
export type SandboxErrorCode =
  | 'CHECKPOINT_NOT_FOUND'
  | 'COMMAND_FAILED'
  | 'COMMAND_TIMEOUT'
  | 'CONNECTION_FAILED'
  | 'CONTAINER_FAILED'
  | 'CWD_NOT_FOUND'
  | 'DETACH_FAILED'
  | 'ENGINE_ERROR'
  | 'ENGINE_NOT_FOUND'
  | 'FILE_EXISTS'
  | 'FILE_NOT_FOUND'
  | 'FILE_TOO_LARGE'
  | 'HELD'
  | 'HOST_ID_IN_USE'
  | 'HOST_LOST'
  | 'IMAGE_UNAVAILABLE'
  | 'IMAGE_WITHOUT_BASH'
  | 'INPUT_CLOSED'
  | 'INVALID_ENV_NAME'
  | 'INVALID_PATH'
  | 'IS_A_DIRECTORY'
  | 'ISOLATION_UNSUPPORTED'
  | 'JOB_ALREADY_EXISTS'
  | 'JOB_NOT_FOUND'
  | 'JOB_RUNNING'
  | 'LIMIT_UNSUPPORTED'
  | 'MOUNT_MISSING'
  | 'NOT_A_DIRECTORY'
  | 'NO_SPACE'
  | 'OUTPUT_LIMIT'
  | 'PERMISSION_DENIED'
  | 'PORT_CLOSED'
  | 'PORT_UNSUPPORTED'
  | 'PROCESS_ALREADY_EXISTS'
  | 'PROCESS_EXITED_BEFORE_READY'
  | 'PROCESS_NOT_FOUND'
  | 'PROCESS_READY_TIMEOUT'
  | 'PROJECT_TOO_WIDE'
  | 'REQUEST_REFUSED'
  | 'ROLLED_BACK'
  | 'RUNTIME_UNSUPPORTED'
  | 'SANDBOX_DESTROYED'
  | 'SANDBOX_LOST'
  | 'SANDBOX_NOT_READY'
  | 'SESSION_ALREADY_EXISTS'
  | 'SESSION_DESTROYED'
  | 'SESSION_NOT_FOUND'
  | 'SESSION_TERMINATED'
  | 'SPAWN_FAILED'
  | 'STATE_DIR_UNAVAILABLE'
  | 'TERMINAL_UNAVAILABLE'
  | 'WORKSPACE_BUSY'
  | 'WORKSPACE_CONFLICT'
  | 'WORKSPACE_IN_USE'
  | 'WORKSPACE_LOST'
  | 'WORKSPACE_NOT_ENABLED'
  | 'WORKSPACE_UNSUPPORTED'

/** Codes of {@link OptionError}. */
export type OptionErrorCode =
  | 'INVALID_COMMAND'
  | 'INVALID_ENV_NAME'
  | 'INVALID_ID'
  | 'INVALID_OPTION'
  | 'STREAM_LOCKED'

/**
 * The details of SANDBOX_LOST. All shells, variables and files of the sandbox that are not on a volume are lost, too.
 */
export interface LostSandbox {
  /**
   * The id of the sandbox in its fleet, or for a client without a fleet: the URL of the server, or the command line that
   * leads to it.
   */
  sandbox: string
  /**
   * `deleted`: the sandbox or its claim was deleted. `expired`: it was unused for its time to live. `stopped`: it has
   * no running pod. `replaced`: another or a restarted server responds in its place. `disconnected`: the program that
   * leads to the server has ended, and the sandbox with it.
   */
  reason: 'deleted' | 'expired' | 'stopped' | 'replaced' | 'disconnected'
  /** Ids of the processes that this client started. Some may have ended before. */
  processes: string[]
  /** Ids of the sessions that this client created. */
  sessions: string[]
}

/**
 * A failure at run time; `code` identifies it. INVALID_ENV_NAME means that the variable is read-only in the session's
 * shell; a malformed name is an {@link OptionError}.
 */
export declare class SandboxError<E extends Encoding = 'utf8', L extends boolean = false> extends Error {
  /** `error instanceof SandboxError` gives the types of a call with default options. */
  static [Symbol.hasInstance](value: unknown): value is SandboxError
  constructor(
    code: SandboxErrorCode,
    message: string,
    options?: {
      cause?: unknown
      result?: ExecResult<E, L>
      logTail?: string
      shortMessage?: string
      path?: string
      paths?: string[]
      lost?: LostSandbox
    },
  )
  readonly code: SandboxErrorCode
  /**
   * One sentence. For a failed command, `message` adds the last lines of its stderr: at most 10 lines and 2000 characters.
   */
  readonly shortMessage: string
  /**
   * For a failed command: the result so far. Its output is text, unless the call has other options: for bytes, use
   * `error as SandboxError<'buffer'>`, and for lines, `error as SandboxError<'utf8', true>`.
   */
  readonly result?: ExecResult<E, L>
  /** For a process that did not become ready: the last lines of its log, both streams in order of arrival. */
  readonly logTail?: string
  /** For a file call: the path of the file. */
  readonly path?: string
  /** For WORKSPACE_CONFLICT: the paths that other programs have changed, as in {@link Change.path}. */
  readonly paths?: string[]
  /** For SANDBOX_LOST: the sandbox, and the ids that were lost with it. */
  readonly lost?: LostSandbox
}

/**
 * An invalid argument: an unknown option, a value out of range, a malformed name. The message names it and its bounds.
 * STREAM_LOCKED means that a stream already has a reader.
 */
export declare class OptionError extends TypeError {
  constructor(code: OptionErrorCode, message: string, options?: { cause?: unknown })
  readonly name: 'OptionError'
  readonly code: OptionErrorCode
}

/** Codes of {@link AddonError}. */
export type AddonErrorCode =
  | 'ADDON_MISSING'
  | 'ADDON_NOT_EXECUTABLE'
  | 'ADDON_NOT_LOADABLE'
  | 'ADDON_UNSUPPORTED_NODE'
  | 'ADDON_UNSUPPORTED_PLATFORM'
  | 'ADDON_WRONG_ARCHITECTURE'
  | 'ADDON_WRONG_LIBC'
  | 'ADDON_WRONG_VERSION'

/**
 * The native addon could not be loaded: every call that needs it rejects with this error. The message names the cause
 * and the fix; `cause` is the error of the loader.
 */
export declare class AddonError extends Error {
  constructor(code: AddonErrorCode, message: string, cause?: unknown)
  readonly name: 'AddonError'
  readonly code: AddonErrorCode
}

/** The rejection after an abort; `cause` is the reason of the AbortSignal. */
export declare class AbortError<E extends Encoding = 'utf8', L extends boolean = false> extends Error {
  /** `error instanceof AbortError` gives the types of a call with default options. */
  static [Symbol.hasInstance](value: unknown): value is AbortError
  /** The reason of the signal becomes `cause`. */
  constructor(reason: unknown, result?: ExecResult<E, L>)
  readonly name: 'AbortError'
  readonly code: 'ABORT_ERR'
  /** One sentence. If the command had started, `message` adds the last lines of its stderr. */
  readonly shortMessage: string
  /** The result so far, if the command had started. The type parameters are those of {@link SandboxError}. */
  readonly result?: ExecResult<E, L>
}
