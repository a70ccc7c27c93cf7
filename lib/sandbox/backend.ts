/**
 * What a sandbox needs from the place where commands run: the engine of this process, or a server.
 *
 * All arguments have been checked. An option that the caller left out is undefined; the backend applies its default.
 */

import type { WaitLimits } from '../base/waiting.js'
import type { EnvLists } from '../options/env.js'
import type { CheckedPath } from '../options/file-paths.js'
import type { OptionValues } from '../options/option.js'
import type { sessionOptions } from '../protocol/session-options.js'
import type {
  Encoding,
  FileEvent,
  FileInfo,
  HistoryEntry,
  JobHandle,
  JobInfo,
  JobRead,
  JobStatus,
  LogEvent,
  Logger,
  LogMatch,
  Output,
  ProcessExit,
  ProcessInfo,
  ProcessLogs,
  ProcessStats,
  ServiceFailure,
  ServiceHealth,
} from '../public/index.js'
import type { ExecRequest } from '../requests/exec.js'
import type {
  FileAction,
  FileReadPlan,
  FileStreamPlan,
  FileWatchPlan,
  FileWritePlan,
} from '../requests/files.js'
import type { JobReadPlan, JobStartPlan } from '../requests/jobs.js'
import type { KillRequest, LogStreamPlan, ProcessFilter } from '../requests/logs.js'
import type { ProcessRequest } from '../requests/process.js'
import type { ServiceRequest } from '../requests/service.js'
import type { LogPlan, PortPlan } from '../requests/waits.js'
import type { Result, RunObserver, StreamRun } from '../run/run.js'

export interface Backend {
  readonly logger: Logger | undefined
  /** Runs a command to its end. Commands of one session run in the order of the calls. */
  exec(request: ExecRequest, observer: RunObserver | undefined): Promise<Result>
  /** Runs a command and hands out its output meanwhile. A command that cannot start rejects the outcome. */
  stream(request: ExecRequest, observer: RunObserver, bounds?: StreamBounds): StreamRun
  /** Publishes a run to the tracing subscribers, which may add variables to the request. */
  traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result>
  /** `introduce` returns the object that onStart receives. */
  startProcess(
    request: ProcessRequest,
    introduce: (process: ProcessBackend) => unknown,
  ): Promise<ProcessBackend>
  startService(
    request: ServiceRequest,
    introduce: (service: ServiceBackend) => unknown,
  ): Promise<ServiceBackend>
  listProcesses(filter: ProcessFilter): Promise<ProcessBackend[]>
  findProcess(id: string): Promise<ProcessBackend | null>
  /** The process of this id, without a look-up that could fail: an unknown id rejects its calls. Throws nothing. */
  process(id: string): ProcessBackend
  killAllProcesses(): Promise<number>
  cleanUpProcesses(): Promise<number>
  setEnv(sessionId: string, env: EnvLists): Promise<void>
  /** Resolves with the id. */
  createSession(values: OptionValues<typeof sessionOptions>): Promise<string>
  hasSession(id: string): Promise<boolean>
  listSessions(): Promise<string[]>
  deleteSession(id: string): Promise<void>
  history(sessionId: string, limit: number | undefined): Promise<HistoryEntry[]>
  files(sessionId: string): FilesBackend
  destroy(): Promise<void>
}

/** Limits of a stream whose reader is at the other end of a connection. */
export interface StreamBounds {
  /** Pieces of output that may wait for the reader. */
  window: number
  /** Bytes of each stream kept in the result, where the caller sets no maxBuffer; undefined: the limit of `exec`. */
  maxBuffer: number | undefined
  /** Whether output events have bytes, whatever the encoding. */
  byteEvents: boolean | undefined
}

/** One background process. */
export interface ProcessBackend {
  /** The last known state. */
  readonly info: ProcessInfo
  /** Whether it takes input from `write`, and whether it has a terminal. True where only the server knows. */
  readonly hasPipe: boolean
  readonly hasTerminal: boolean
  /** Brings `info` up to date. */
  refresh(): Promise<void>
  kill(request: KillRequest): Promise<boolean>
  wait(limits: WaitLimits): Promise<ProcessExit>
  logs(encoding: Encoding): Promise<ProcessLogs<Encoding>>
  output(plan: LogStreamPlan): AsyncIterableIterator<LogEvent<Encoding>, undefined>
  /** Its events as text, for callbacks. Reading them does not keep the event loop alive. */
  watch(wantsOutput: boolean): AsyncIterable<LogEvent>
  waitForLog(plan: LogPlan): Promise<LogMatch>
  waitForPort(plan: PortPlan): Promise<void>
  write(data: Uint8Array): Promise<void>
  closeInput(): Promise<void>
  resize(size: { cols: number; rows: number }): Promise<boolean>
  stats(): Promise<ProcessStats>
}

/** A process with a health check, restarted when it fails. */
export interface ServiceBackend extends ProcessBackend {
  readonly restarts: number
  readonly lastFailure: ServiceFailure | null
  health(): Promise<ServiceHealth>
  /** The process after the one with this pid; null when none will follow by itself, or `stop` is aborted. */
  successor(pid: number, stop: AbortSignal): Promise<ProcessInfo | null>
  restart(): Promise<void>
}

/** The files of one session. */
export interface FilesBackend {
  read(plan: FileReadPlan): Promise<Output<Encoding>>
  /** The file is opened by the first read. */
  open(path: CheckedPath, plan: FileStreamPlan): FileSource
  write(plan: FileWritePlan): Promise<FileInfo>
  /** Sorted by path. */
  list(path: CheckedPath, depth: number): Promise<FileInfo[]>
  stat(path: CheckedPath): Promise<FileInfo | null>
  act(action: FileAction): Promise<void>
  /** Begins now; a failure rejects the first step. */
  watch(path: CheckedPath, plan: FileWatchPlan): AsyncIterableIterator<FileEvent, undefined>
}

/** A file that is read in pieces. */
export interface FileSource {
  /** Bytes of the file when it was opened; undefined where that is not known. */
  readonly size: number | undefined
  /** What differs when the path has another file, or the file another content; undefined where that is not known. */
  readonly version: string | undefined
  /** Nothing follows what was read; undefined where that is not known. */
  readonly isOver: boolean | undefined
  /** The next piece; undefined at the end. Not called again before it has settled. */
  read(): Promise<Uint8Array | undefined>
  close(): void
}

/** Durable jobs. */
export interface JobsBackend {
  start(plan: JobStartPlan): Promise<JobHandle>
  status(jobId: string): Promise<JobStatus>
  read(jobId: string, cursor: number, plan: JobReadPlan): Promise<JobRead<Encoding>>
  follow(
    jobId: string,
    cursor: number,
    plan: JobReadPlan & { signal: AbortSignal | undefined },
  ): AsyncIterableIterator<JobRead<Encoding>, undefined>
  wait(jobId: string, signal: AbortSignal | undefined): Promise<JobStatus>
  cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void>
  attach(jobId: string): Promise<JobHandle | null>
  list(): Promise<JobInfo[]>
  remove(jobId: string): Promise<void>
}
