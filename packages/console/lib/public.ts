/**
 * Records what happens in a sandbox.
 *
 * @module packages/console
 */
import type { AnySandbox, Logger, OptionError } from 'nacre'

/** Options of {@link record}. */
export interface RecordOptions {
  /**
   * Where recordings are stored, with mode 0600. A missing directory is created with mode 0700. It must be for this user
   * alone, and only one recorder may use it at a time.
   */
  directory: string
  /**
   * Bytes of all recordings in the directory, also of earlier ones: 67108864 (64 MiB) to 1099511627776. The oldest are removed
   * first. Default: 268435456.
   */
  limit?: number
  /**
   * Texts of at least 4 characters and expressions that recordings must not show. They have `[redacted]` instead. It also
   * hides well-known forms of tokens and keys. This is help, not a guarantee: `base64` defeats it. Default: none.
   */
  redact?: readonly (string | RegExp)[]
  /** Receives failures, like those of a full disk. Default: none. */
  logger?: Logger
}

/** A recorder. See {@link record}. */
export interface Recorder extends AsyncDisposable {
  /** Where recordings are stored. */
  readonly directory: string
  /**
   * Stores what has happened so far, and ends. Call it before `destroy` of the sandbox, which ends its processes without their
   * last output. Idempotent.
   */
  close(): Promise<void>
}

/**
 * Records what happens in a sandbox from now on, until `close` or its end. Each session and each background process has a
 * recording of its own, in the format asciicast v3. Input is not recorded, but terminals show most of what is typed.
 *
 * A recording consists of files of about 8 MiB, like `session-default-0001.cast` and `process-web-0001.cast.gz`. Each begins
 * with the screen of that moment, so each can be played by itself. All but the last are compressed. A recording has at most
 * 64 MiB, without its oldest files.
 *
 * Recording never delays a command. What is printed too fast to be recorded, or while the disk is full, is missing; a comment
 * in the recording says how many bytes.
 *
 * Rejects with {@link OptionError}, also for a directory that cannot be used.
 */
export declare function record(sandbox: AnySandbox, options: RecordOptions): Promise<Recorder>
