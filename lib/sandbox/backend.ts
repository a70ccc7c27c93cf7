/**
 * What a sandbox needs of the place where things run: this process's engine, or a server.
 *
 * All arguments have been checked. What the caller has not given is undefined, and the backend's own default holds.
 */

import type { WaitLimits } from '../base/waiting.js'
import type { EnvLists } from '../options/env.js'
import type { OptionValues } from '../options/option.js'
import type { sessionOptions } from '../protocol/session-options.js'
import type {
  Encoding,
  HistoryEntry,
  JobHandle,
  JobInfo,
  JobRead,
  JobStatus,
  LogEvent,
  Logger,
  LogMatch,
  ProcessExit,
  ProcessInfo,
  ProcessLogs,
  ProcessStats,
  ServiceFailure,
  ServiceHealth,
} from '../public/index.js'
import type { ExecRequest } from '../requests/exec.js'
import type { JobReadPlan, JobStartPlan } from '../requests/jobs.js'
import type { KillRequest, LogStreamPlan, ProcessFilter } from '../requests/logs.js'
import type { ProcessRequest } from '../requests/process.js'
import type { ServiceRequest } from '../requests/service.js'
import type { LogPlan, PortPlan } from '../requests/waits.js'
import type { Result, RunObserver, StreamRun } from '../run/run.js'

export interface Backend {
  readonly logger: Logger | undefined
  /** Runs a command to its end. Calls are in order from the moment they are made. */
  exec(request: ExecRequest, observer: RunObserver | undefined): Promise<Result>
  /** The same with the output while it runs. What keeps it from running is the rejection of the outcome. */
  stream(request: ExecRequest, observer: RunObserver, bounds?: StreamBounds): StreamRun
  /** Publishes a run to what traces this program, which may add variables to the request. */
  traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result>
  /** `introduce` makes what onStart is called with. */
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
  /** Whatever process has that id when it is used; PROCESS_NOT_FOUND then, when there is none. */
  process(id: string): ProcessBackend
  killAllProcesses(): Promise<number>
  cleanUpProcesses(): Promise<number>
  setEnv(sessionId: string, env: EnvLists): Promise<void>
  /** Gives the id. */
  createSession(values: OptionValues<typeof sessionOptions>): Promise<string>
  hasSession(id: string): Promise<boolean>
  listSessions(): Promise<string[]>
  deleteSession(id: string): Promise<void>
  history(sessionId: string, limit: number | undefined): Promise<HistoryEntry[]>
  destroy(): Promise<void>
}

/** For a stream whose reader is at the other end of a connection. */
export interface StreamBounds {
  /** Pieces of output that wait for it. */
  window: number
  /** Most bytes of each stream in the result, unless the caller says how many; undefined: as many as exec keeps. */
  maxBuffer: number | undefined
}

/** One background process. */
export interface ProcessBackend {
  /** As it is known now. */
  readonly info: ProcessInfo
  /** Whether it can be written to, and whether it has a terminal. True where only the backend can tell. */
  readonly hasPipe: boolean
  readonly hasTerminal: boolean
  /** Brings `info` up to date. */
  refresh(): Promise<void>
  kill(request: KillRequest): Promise<boolean>
  wait(limits: WaitLimits): Promise<ProcessExit>
  logs(encoding: Encoding): Promise<ProcessLogs<Encoding>>
  output(plan: LogStreamPlan): AsyncIterableIterator<LogEvent<Encoding>, undefined>
  /** Its events as text, for callbacks: nothing awaits them, so they do not keep the program alive. */
  watch(wantsOutput: boolean): AsyncIterable<LogEvent>
  waitForLog(plan: LogPlan): Promise<LogMatch>
  waitForPort(plan: PortPlan): Promise<void>
  write(data: Uint8Array): Promise<void>
  closeInput(): Promise<void>
  resize(size: { cols: number; rows: number }): Promise<boolean>
  stats(): Promise<ProcessStats>
}

/** A process that is waited for and kept alive. */
export interface ServiceBackend extends ProcessBackend {
  readonly restarts: number
  readonly lastFailure: ServiceFailure | null
  health(): Promise<ServiceHealth>
  restart(): Promise<void>
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
