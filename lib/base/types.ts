/** The types that every layer names: commands, their input and output, signals, and the codes of errors. */

/**
 * A command: shell text (`string`), which bash parses, or an argument list (`string[]`), which no shell parses. The
 * first item of a list is the program, looked up on the session's PATH; the others are its arguments.
 *
 * Rejected with INVALID_COMMAND: blank text, an empty list, a list whose program is '', and NUL anywhere.
 */
export type Command = string | readonly string[]

/** The name of a signal. The names are those of `NodeJS.Signals`, but do not need `@types/node`. */
export type SignalName =
  | 'SIGABRT'
  | 'SIGALRM'
  | 'SIGBREAK'
  | 'SIGBUS'
  | 'SIGCHLD'
  | 'SIGCONT'
  | 'SIGFPE'
  | 'SIGHUP'
  | 'SIGILL'
  | 'SIGINFO'
  | 'SIGINT'
  | 'SIGIO'
  | 'SIGIOT'
  | 'SIGKILL'
  | 'SIGLOST'
  | 'SIGPIPE'
  | 'SIGPOLL'
  | 'SIGPROF'
  | 'SIGPWR'
  | 'SIGQUIT'
  | 'SIGSEGV'
  | 'SIGSTKFLT'
  | 'SIGSTOP'
  | 'SIGSYS'
  | 'SIGTERM'
  | 'SIGTRAP'
  | 'SIGTSTP'
  | 'SIGTTIN'
  | 'SIGTTOU'
  | 'SIGUNUSED'
  | 'SIGURG'
  | 'SIGUSR1'
  | 'SIGUSR2'
  | 'SIGVTALRM'
  | 'SIGWINCH'
  | 'SIGXCPU'
  | 'SIGXFSZ'

/** A signal by name ('SIGTERM') or number (1 to 64). 0 is rejected. */
export type Signal = SignalName | number

/**
 * Changes to an environment: a string without NUL sets a variable, `undefined` unsets it. Names match
 * `[A-Za-z_][A-Za-z0-9_]*`.
 */
export type EnvChanges = Record<string, string | undefined>

/** The encoding of output: 'utf8' for text (invalid bytes become U+FFFD), 'buffer' for bytes. */
export type Encoding = 'utf8' | 'buffer'

/**
 * The type of output for an encoding, with or without `lines`. At run time, bytes are a Buffer, which is a Uint8Array.
 */
export type Output<E extends Encoding, L extends boolean = false> = E extends 'buffer'
  ? Uint8Array
  : L extends true
    ? string[]
    : string

/** The standard input of a command. Text is encoded as UTF-8. */
export type Input =
  | string
  | Uint8Array
  | AsyncIterable<string | Uint8Array>
  | ReadableStream<string | Uint8Array>

/** Receives engine diagnostics. `console` is a valid logger. */
export interface Logger {
  debug(message: string): void
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

/**
 * Codes of {@link SandboxError}. CONNECTION_FAILED, REQUEST_REFUSED, SANDBOX_LOST and SANDBOX_NOT_READY come from
 * `nacre/client`, `nacre/engine` and `@nacre/fleet` only, HOST_LOST and HOST_ID_IN_USE from `@nacre/queue`. Those of containers
 * and images, ENGINE_NOT_FOUND, MOUNT_MISSING, PROJECT_TOO_WIDE and RUNTIME_UNSUPPORTED come from `openSandbox`.
 */
export type SandboxErrorCode =
  | 'ARCHIVE_REJECTED'
  | 'BUDGET_EXCEEDED'
  | 'CHANNEL_CLOSED'
  | 'CHANNEL_FULL'
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
  | 'INVALID_MESSAGE'
  | 'INVALID_PATH'
  | 'IS_A_DIRECTORY'
  | 'ISOLATION_UNSUPPORTED'
  | 'JOB_ALREADY_EXISTS'
  | 'JOB_NOT_FOUND'
  | 'JOB_RUNNING'
  | 'LIMIT_UNSUPPORTED'
  | 'MESSAGE_TOO_LARGE'
  | 'MOUNT_MISSING'
  | 'NOT_A_DIRECTORY'
  | 'NO_SPACE'
  | 'OUTPUT_LIMIT'
  | 'PERMISSION_DENIED'
  | 'PORT_CLOSED'
  | 'PORT_IN_USE'
  | 'PROCESS_ALREADY_EXISTS'
  | 'PROCESS_EXITED_BEFORE_READY'
  | 'PROCESS_NOT_FOUND'
  | 'PROCESS_READY_TIMEOUT'
  | 'PROCESS_WAIT_TIMEOUT'
  | 'PROJECT_TOO_WIDE'
  | 'REQUEST_REFUSED'
  | 'ROLLED_BACK'
  | 'RUNTIME_UNSUPPORTED'
  | 'SANDBOX_DESTROYED'
  | 'SANDBOX_IN_USE'
  | 'SANDBOX_LOST'
  | 'SANDBOX_NOT_READY'
  | 'SESSION_ALREADY_EXISTS'
  | 'SESSION_DESTROYED'
  | 'SESSION_NOT_FOUND'
  | 'SESSION_TERMINATED'
  | 'SPAWN_FAILED'
  | 'STATE_DIR_UNAVAILABLE'
  | 'TERMINAL_UNAVAILABLE'
  | 'VM_UNAVAILABLE'
  | 'WORKSPACE_BUSY'
  | 'WORKSPACE_CONFLICT'
  | 'WORKSPACE_IN_USE'
  | 'WORKSPACE_LOST'
  | 'WORKSPACE_NOT_ENABLED'
  | 'WORKSPACE_UNSUPPORTED'

/**
 * What a program can do about an error, whatever its code. `option`: an argument must change. `not-found`: nothing has this
 * name. `conflict`: something is in the way, and may be gone later. `denied`: it is forbidden. `unsupported`: this machine or
 * sandbox cannot do it. `unavailable`: what the call needs is missing, or does not answer. `limit`: it is too large.
 * `timeout`: it took too long. `aborted`: the caller aborted it. `failed`: the program failed, and its output says why.
 * `ended`: what the call used has ended. `internal`: nacre failed.
 */
export type ErrorKind =
  | 'aborted'
  | 'conflict'
  | 'denied'
  | 'ended'
  | 'failed'
  | 'internal'
  | 'limit'
  | 'not-found'
  | 'option'
  | 'timeout'
  | 'unavailable'
  | 'unsupported'

/** Codes of {@link OptionError}. */
export type OptionErrorCode =
  | 'INVALID_COMMAND'
  | 'INVALID_ENV_NAME'
  | 'INVALID_ID'
  | 'INVALID_OPTION'
  | 'STREAM_LOCKED'

/** What two sandboxes have made of one path that does not go together. */
export interface MergeConflict {
  /** Relative to the workspace. Bytes that are not UTF-8 appear as U+FFFD. */
  path: string
  /**
   * `content`: both have changed the same lines. `binary`: both have changed a file that has a byte 0 among its first 8000, or more
   * than 16 MiB, or than 512 MiB with a merge driver. `mode`: both have changed the permissions. `deleted`: one has deleted what the other has changed. `kind`: one has a
   * file where the other has a directory, for example. `target`: both have changed the target of a link. `driver`: a merge driver of
   * git's configuration has not merged it.
   */
  reason: 'content' | 'binary' | 'mode' | 'deleted' | 'kind' | 'target' | 'driver'
  /** The places in the list of those sandboxes that have changed it. The last one was merged with the result of those before. */
  sides: number[]
  /** Where the lines differ, for `content`. Omitted beyond 16 MiB of text for each sandbox. */
  hunks: ConflictHunk[]
  /** The merge driver, for `driver`. */
  driver?: {
    /** Its name in git's configuration. */
    name: string
    /**
     * Up to 128, it has found conflicts, and the file is what it has left. Otherwise it has failed, and the file is as in the sandboxes
     * before. null if it was killed, as after 60 s.
     */
    exitCode: number | null
    /** The last 2000 bytes of its output. */
    output: string
  }
}

/** Lines that two sandboxes have changed in different ways. */
export interface ConflictHunk {
  /** Where it begins in the merged file, from 1: the line of the first marker. */
  line: number
  /** The lines of the sandboxes before, at most 64 KiB; '' if they have deleted them. */
  ours: string
  /** The lines of the last one of `sides`, at most 64 KiB; '' if it has deleted them. */
  theirs: string
}

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
