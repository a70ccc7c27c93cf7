/** A foreground command and its result. */
import type { NativeCommand } from './command.js'
import type { NativeDetachedProcess, NativeKilledBy } from './process.js'

/** Shell text or, in `extras`, an argument list, and everything that applies to this one command. */
export interface NativeExec {
  text: string | undefined
  sessionId: string
  /** 0 = none. */
  timeout: number
  killSignal: number
  forceKillAfterDelay: number
  /** Bytes kept per stream. */
  maxBuffer: number
  encoding: 'utf8' | 'buffer'
  extras: NativeExecExtras | undefined
}

/** Options that few commands have. */
export interface NativeExecExtras extends Omit<NativeCommand, 'text'> {
  input: 'none' | 'bytes' | 'stream'
  inputBytes?: Uint8Array
  /** Both streams through one pipe, as stdout. */
  mergeOutput?: boolean | undefined
  /** Bytes of both streams together, after which the command is killed. */
  outputLimit?: number | undefined
  /** Also send the event `start`. */
  start?: boolean
  /** Also send `start` and `output` events. */
  events: boolean
  /** Maximum output events in flight; default: WINDOW in `src/pending.rs`. */
  window?: number | undefined
  /** The process that the command can become. Only for streams. */
  process?: NativeDetachedProcess | undefined
}

export interface NativeResult {
  exitCode?: number
  signal?: number
  /** A string only with encoding utf8 and up to 1 MiB. */
  stdout: string | Buffer
  stderr: string | Buffer
  /** Lengths in bytes of the kept runs, alternating stdout, stderr, stdout, ...; absent if there is only one stream. */
  order?: Uint32Array
  cwd: string
  duration: number
  /** Milliseconds since the epoch. */
  startedAt: number
  // Absent when false or 0.
  timedOut?: boolean
  cancelled?: boolean
  killedBy?: NativeKilledBy
  outputLimited?: boolean
  droppedStdout?: number
  droppedStderr?: number
  sessionRestarted?: boolean
  /** Absent when there are none. */
  lostState?: { kind: string; name: string; reason: string }[]
  /** Absent when there are none. */
  denials?: string[]
}

/** A command that runs or waits. While it waits, the rest is absent. */
export interface NativeRunning {
  id: number
  command: string
  /** Milliseconds since the epoch. */
  startedAt?: number
  pid?: number
  stdoutBytes?: number
  stderrBytes?: number
  lastOutputAt?: number
}
