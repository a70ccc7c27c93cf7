/**
 * The interface between a sandbox or a server and the place where commands run: this process's engine, or another server.
 *
 * All arguments have been checked. An option that was not given is undefined; the backend applies its default.
 */

import type { Hidden } from '../base/redact.js'
import type { WaitLimits } from '../base/waiting.js'
import type * as api from '../calls/index.js'
import type { sessionOptions } from '../calls/session.js'
import type { CallsOf } from '../protocol/endpoint.js'
import type { FoundLine } from '../protocol/endpoints.js'
import type {
  backendCalls,
  checkpointCalls,
  fileCalls,
  jobCalls,
  processCalls,
  workspaceCalls,
} from '../protocol/simple-calls.js'
import type { EventPlan } from '../requests/events.js'
import type { ExecRequest } from '../requests/exec.js'
import type { FileReadPlan, FileStreamPlan, FileWatchPlan, FileWritePlan } from '../requests/files.js'
import type { JobFollowPlan, JobStartPlan } from '../requests/jobs.js'
import type { KillRequest, LogStreamPlan, ProcessFilter } from '../requests/logs.js'
import type { ProcessRequest } from '../requests/process.js'
import type { ServiceRequest } from '../requests/service.js'
import type { LogPlan, PortPlan } from '../requests/waits.js'
import type { DiffPlan } from '../requests/workspace.js'
import type { Result, RunObserver, StreamRun } from '../run/run.js'
import type { EnvLists } from '../schema/env.js'
import type { OptionValues } from '../schema/kind.js'
import type { CheckedPath } from '../schema/paths.js'

/** Events, beginning after a cursor. */
export interface EventFeed extends AsyncIterableIterator<api.SandboxEvent, undefined> {
  /** The cursor, if it is known at once. */
  readonly since?: number
  /** Resolves with the cursor when it is known, at the latest after a step has begun. */
  readonly begun: Promise<number>
}

export interface Backend extends CallsOf<typeof backendCalls> {
  readonly logger: api.Logger | undefined
  readonly jobs: JobsBackend
  readonly workspace: WorkspaceBackend
  readonly checkpoints: CheckpointsBackend
  /** The secrets of its sessions, unless only a server knows them. */
  readonly hidden?: Hidden
  /** Runs a command. Commands of one session run in the order of the calls. */
  exec(request: ExecRequest, observer: RunObserver | undefined): Promise<Result>
  /** Runs a command and reports its output as it arrives. If the command cannot start, the outcome rejects. */
  stream(request: ExecRequest, observer: RunObserver): StreamRun
  /** Publishes a run to tracing subscribers, which may add variables to the request. */
  traced(request: ExecRequest, perform: (request: ExecRequest) => Promise<Result>): Promise<Result>
  startProcess(request: ProcessRequest): Promise<ProcessBackend>
  startService(request: ServiceRequest): Promise<ServiceBackend>
  listProcesses(filter: ProcessFilter): Promise<ProcessBackend[]>
  findProcess(id: string): Promise<ProcessBackend | null>
  /** The process with this id, without a lookup that could fail: with an unknown id, its calls reject. Never throws. */
  process(id: string): ProcessBackend
  /** `hold`: the caller's, of the session. */
  setEnv(sessionId: string, env: EnvLists, hold: string | undefined): Promise<void>
  /** Resolves with the id of the new session. */
  createSession(values: OptionValues<typeof sessionOptions>): Promise<string>
  hasSession(id: string): Promise<boolean>
  deleteSession(id: string): Promise<void>
  hold(sessionId: string, owner: string): Promise<HoldBackend>
  files(sessionId: string): FilesBackend
  events(plan: EventPlan): EventFeed
  destroy(): Promise<void>
}

/** A hold on a session or a process. */
export interface HoldBackend {
  /** What no other caller knows. */
  readonly id: string
  /** Resolves when the hold has ended. */
  readonly ended: Promise<void>
  release(note?: string): Promise<void>
}

/** One background process. */
export interface ProcessBackend extends CallsOf<typeof processCalls, 'processId'> {
  /** The last known state. */
  readonly info: api.ProcessInfo
  /** The process itself if it is known to be a service. */
  readonly service: ServiceBackend | undefined
  /** Whether it takes input from `write`, and whether it has a terminal. True if only the server knows. */
  readonly hasPipe: boolean
  readonly hasTerminal: boolean
  /** Brings `info` up to date. */
  refresh(): Promise<void>
  kill(request: KillRequest): Promise<boolean>
  wait(limits: WaitLimits): Promise<api.ProcessExit>
  output(plan: LogStreamPlan): AsyncIterableIterator<api.LogEvent<api.Encoding>, undefined>
  /** Its events as text, for callbacks. Reading them does not keep the event loop alive. */
  watch(wantsOutput: boolean): AsyncIterable<api.LogEvent>
  waitForLog(plan: LogPlan): Promise<FoundLine>
  waitForPort(plan: PortPlan): Promise<void>
  hold(owner: string): Promise<HoldBackend>
  /** Sends a message as one line of JSON. */
  send(line: string): Promise<void>
  disconnect(): Promise<void>
  /** Of these three, `hold` is the caller's. */
  write(data: Uint8Array, hold?: string): Promise<void>
  closeInput(hold?: string): Promise<void>
  resize(size: { cols: number; rows: number }, hold?: string): Promise<boolean>
}

/** A process with a health check, restarted after a failure. */
export interface ServiceBackend extends ProcessBackend {
  readonly restarts: number
  readonly lastFailure: api.ServiceFailure | null
  health(): Promise<api.ServiceHealth>
  /** The process after the process with this pid; null if none will follow by itself, or `stop` is aborted. */
  successor(pid: number, stop: AbortSignal): Promise<api.ProcessInfo | null>
  restart(): Promise<void>
}

/** The files of one session. */
export interface FilesBackend extends CallsOf<typeof fileCalls, 'sessionId'> {
  read(plan: FileReadPlan): Promise<api.Output<api.Encoding>>
  /** Returns a source that opens the file at its first read. */
  open(path: CheckedPath, plan: FileStreamPlan): FileSource
  write(plan: FileWritePlan): Promise<api.FileInfo>
  /** Sorted by path. */
  list(path: CheckedPath, depth: number): Promise<api.FileInfo[]>
  /** `follow`: describes what a symlink leads to, which is the default. */
  stat(path: CheckedPath, follow?: boolean): Promise<api.FileInfo | null>
  /** Starts watching immediately; a failure rejects the first step. */
  watch(path: CheckedPath, plan: FileWatchPlan): AsyncIterableIterator<api.FileEvent, undefined>
}

/** A file that is read in pieces. */
export interface FileSource {
  /** Bytes of the file when it was opened; undefined if unknown. */
  readonly size: number | undefined
  /** Changes when the path names another file, or the file's content changes; undefined if unknown. */
  readonly version: string | undefined
  /** Nothing follows what was read; undefined where that is not known. */
  readonly isOver: boolean | undefined
  /** The next piece; undefined at the end. Not called again before it has settled. */
  read(): Promise<Uint8Array | undefined>
  close(): void
}

/** Durable jobs. */
export interface JobsBackend extends CallsOf<typeof jobCalls> {
  start(plan: JobStartPlan): Promise<api.JobHandle>
  follow(
    jobId: string,
    cursor: number,
    plan: JobFollowPlan,
  ): AsyncIterableIterator<api.JobRead<api.Encoding>, undefined>
  cancel(jobId: string, forceKillAfterDelay: number | undefined): Promise<void>
  attach(jobId: string): Promise<api.JobHandle | null>
}

/** The copy-on-write workspace. */
export interface WorkspaceBackend extends CallsOf<typeof workspaceCalls> {
  diff(plan: DiffPlan): Promise<Uint8Array>
}

/** The checkpoints of the workspace and the sessions. An id that none has is unknown, whatever its form. */
export interface CheckpointsBackend extends CallsOf<typeof checkpointCalls> {
  rollBack(plan: { checkpointId: string }): Promise<api.Rollback>
  undo(): Promise<api.Undo>
}
