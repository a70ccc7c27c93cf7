/** The errors of all calls. */

import type {
  AddonErrorCode,
  Encoding,
  ErrorKind,
  LostSandbox,
  MergeConflict,
  OptionErrorCode,
  SandboxErrorCode,
} from '../base/types.js'
import type { ExecResult } from './result.js'

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
      conflicts?: MergeConflict[]
      lost?: LostSandbox
    },
  )
  readonly code: SandboxErrorCode
  /** What kind of failure it is: fewer words than codes, to decide what to do. */
  readonly kind: ErrorKind
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
  /** For WORKSPACE_CONFLICT: the paths that other programs or sandboxes have changed, as in {@link Change.path}. */
  readonly paths?: string[]
  /** For WORKSPACE_CONFLICT of {@link Sandbox.merge}: what does not go together. */
  readonly conflicts?: MergeConflict[]
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
  readonly kind: 'option'
}

/**
 * The native addon could not be loaded: every call that needs it rejects with this error. The message names the cause
 * and the fix; `cause` is the error of the loader.
 */
export declare class AddonError extends Error {
  constructor(code: AddonErrorCode, message: string, cause?: unknown)
  readonly name: 'AddonError'
  readonly code: AddonErrorCode
  readonly kind: 'unavailable'
}

/** The rejection after an abort; `cause` is the reason of the AbortSignal. */
export declare class AbortError<E extends Encoding = 'utf8', L extends boolean = false> extends Error {
  /** `error instanceof AbortError` gives the types of a call with default options. */
  static [Symbol.hasInstance](value: unknown): value is AbortError
  /** The reason of the signal becomes `cause`. */
  constructor(reason: unknown, result?: ExecResult<E, L>)
  readonly name: 'AbortError'
  readonly code: 'ABORT_ERR'
  readonly kind: 'aborted'
  /** One sentence. If the command had started, `message` adds the last lines of its stderr. */
  readonly shortMessage: string
  /** The result so far, if the command had started. The type parameters are those of {@link SandboxError}. */
  readonly result?: ExecResult<E, L>
}
