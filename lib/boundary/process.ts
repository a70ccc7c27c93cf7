/** A background process: its start, state, log and statistics. */
import type { NativeCommand } from './command.js'

/** A background process to start. */
export interface NativeProcessStart extends NativeCommand {
  processId: string
  sessionId: string
  /** As displayed. */
  command: string
  /** 0 = none. */
  timeout: number
  killSignal: number
  forceKillAfterDelay: number
  /** `open` keeps the input open for writeProcess. */
  input: 'none' | 'bytes' | 'open'
  inputBytes?: Uint8Array
  /** One pipe for both streams. */
  mergeOutput: boolean
  /** Bytes of log kept. */
  logLimit: number
  /** Bytes of output that may wait for takeLog; beyond that, the process blocks. Absent: no limit. */
  window?: number | undefined
  pty?: { cols: number; rows: number }
  limits?: NativeLimits
  /** Forgotten some time after its end. */
  autoCleanup: boolean
  /** Not in the feed of events. */
  hidden?: boolean
}

/** The process that a command can become. */
export interface NativeDetachedProcess
  extends Pick<NativeProcessStart, 'processId' | 'command' | 'logLimit' | 'autoCleanup'> {
  /** The log begins with the command, and not when it becomes a process. */
  keepsLog: boolean
}

export interface NativeLimits {
  /** Bytes. */
  memory?: number
  /** Processors; may be a fraction. */
  cpus?: number
  pids?: number
  openFiles?: number
}

/** Names one process for ever: after it was forgotten, its id can belong to another one. */
export interface NativeProcessRef {
  /** For messages. */
  processId: string
  /** No other process ever has it. */
  number: number
}

export interface NativeProcess extends NativeProcessRef {
  sessionId: string
  pid: number
  command: string
  state: 'running' | 'exited' | 'killed' | 'crashed'
  /** Milliseconds since the epoch. */
  startedAt: number
  endedAt?: number
  lastOutputAt?: number
  lastInputAt?: number
  terminal?: { cols: number; rows: number; echo: boolean; canonical: boolean }
  exitCode?: number
  signal?: number
  reason?: 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'
  killedBy?: NativeKilledBy
}

export interface NativeKilledBy {
  by: 'timeout' | 'abort' | 'caller' | 'oom' | 'outputLimit' | 'session'
  reason?: string | undefined
}

export interface NativeLog {
  pieces: NativeLogPiece[]
  /** The cursor to continue reading at. */
  next: number
  /** Bytes from `cursor` on that no longer exist: beyond `logLimit`, the oldest are dropped. */
  dropped: number
  /** Bytes that could not be kept because the disk was full. */
  lost: number
  /** The process has ended and nothing follows `next`. */
  ended: boolean
}

export interface NativeLogPiece {
  /** 1 is stdout, 2 is stderr. */
  stream: number
  /** Absolute offset in bytes of `data` in the whole log, counting both streams. */
  cursor: number
  data: Buffer
  /** Milliseconds since the epoch. */
  time: number
}

export interface NativeLineQuery {
  /** A negative number counts from the end. Not 0. */
  fromLine: number
  /** Maximum lines of the reply. */
  lines: number
  /** The last lines instead of the first. */
  tail: boolean
  grep?: string
  context: number
}

/** What to wait for, besides the end of a process. */
export interface NativeConditions {
  input: boolean
  /** A regular expression. */
  log?: string | undefined
  /** The first line that counts. A negative number counts from the end. */
  fromLine: number
  /** Milliseconds without output. */
  idle?: number | undefined
  /** 0 = none. */
  timeout: number
}

/** `ends`, `numbers` and `flags` have an entry for each line. */
export interface NativeLogLines {
  /** All lines without their ends, one after another. */
  data: Buffer
  /** Where each line ends in `data`. */
  ends: number[]
  numbers: number[]
  /** The sum of: 1 for stderr, 2 for a match, 4 for missing bytes, 8 for a line without a newline. */
  flags: number[]
  /** Lines of the whole log. */
  total: number
  /** The first kept line. */
  first: number
  matches?: number
  /** The first line that was left out because of the limits. */
  next?: number
}

export interface NativeWaiting {
  listening: boolean
  sure: boolean
  how: 'line' | 'secret' | 'keys' | 'pipe'
  program: string
  pid: number
  timed: boolean
}

export interface NativeStats {
  /** Milliseconds. */
  cpuTime: number
  /** Bytes. */
  memory: number
  memoryPeak: number
  pids: number
  ioRead: number
  ioWrite: number
}
