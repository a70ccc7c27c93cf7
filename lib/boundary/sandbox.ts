/** The handle of a sandbox, its configuration, and its sessions. */
import type { IsolationCapabilities, WorkspaceCapabilities } from '../calls/index.js'
import type { NativeExecExtras } from './exec.js'
import type { NativeFileAction, NativeFileRead, NativeFileWrite } from './file.js'
import type { NativeJobStart } from './job.js'
import type {
  NativeConditions,
  NativeKilledBy,
  NativeLimits,
  NativeLineQuery,
  NativeProcess,
  NativeProcessRef,
  NativeProcessStart,
} from './process.js'
import type { NativeWorkspaceConfig } from './workspace.js'

/** The handle of one sandbox. It is created unreferenced: it does not keep the event loop alive. */
export interface NativeSandbox {
  /** Returns the number of the process that the command can become. Positional, with `extras` only where needed: reading an object would take longer than running `true`. */
  exec(
    id: number,
    sessionId: string,
    text: string | undefined,
    timeout: number,
    killSignal: number,
    forceKillAfterDelay: number,
    maxBuffer: number,
    asText: boolean,
    extras: NativeExecExtras | undefined,
  ): number | null
  /**
   * Ends a pending exec: a queued command never runs, a running one is killed. The exec still ends with its one event. A
   * second call only has an effect with SIGKILL, which cuts the grace time short.
   */
  interrupt(id: number, signal: number | null, by: NativeKilledBy): void
  /** The same for the exec of any caller: ends with `done` and `killed` once that has ended; false if there is none. */
  killCommand(id: number, sessionId: string, execId: number, signal: number | null, by: NativeKilledBy): void
  /**
   * Makes a running command a process, and frees its session: ends with `done` and `process`. With `endsCall` the exec ends
   * now, with its result so far; otherwise it goes on to its one event.
   */
  detach(id: number, execId: number, endsCall: boolean): void
  /** Returns permits, one per consumed `output` event; the engine sends at most 16 events without. */
  credit(id: number, count: number): void
  /** For `input: 'stream'`: `done` for `writeId` follows once the pipe took the bytes, or the command has ended. */
  write(id: number, writeId: number, data: Uint8Array): void
  closeInput(id: number): void
  setEnv(id: number, sessionId: string, names: string[], values: Array<string | null>): void
  createSession(id: number, session: NativeSession): void
  deleteSession(id: number, sessionId: string): void
  sessions(): string[]
  /** The number of the last event. */
  lastEvent(): number
  /** Ends with `done` and `feed`: at most `most` events after `since`, for which it waits. */
  readEvents(id: number, since: number, most: number): void
  serviceRestarted(sessionId: string, processId: string, restarts: number): void
  /** Ends with `done` and `running`. */
  running(id: number, sessionId: string): void
  /** Ends with `done` and `process`, once the process has a pid. */
  startProcess(id: number, process: NativeProcessStart): void
  /** All known processes, in the order of their starts. A process is known until it is cleaned up. */
  processes(): NativeProcess[]
  /** One process; null if it is not known. */
  process(processId: string): NativeProcess | null
  /** Ends with `done` and `killed` once the process's whole tree has exited; false if it had ended before. */
  killProcess(
    id: number,
    process: NativeProcessRef,
    signal: number,
    forceKillAfterDelay: number,
    by: NativeKilledBy,
  ): void
  /** Ends with `done` and `process` once it has ended. */
  waitProcess(id: number, process: NativeProcessRef): void
  /**
   * Ends with `done` and `log`: at most `maxBytes` from `cursor` on. With `follow` it waits for output or the end of the
   * process; without, the log may be empty.
   */
  /** Reports that the reader of a process with a `window` has taken everything before the cursor. */
  takeLog(process: NativeProcessRef, cursor: number): void
  /** Sends a signal to the process group, with no further escalation. False if the process has ended. */
  signalProcess(process: NativeProcessRef, signal: number): boolean
  readLog(id: number, process: NativeProcessRef, cursor: number, maxBytes: number, follow: boolean): void
  /** Ends with `done`, `first` and `process`, and with `waiting` or `logLines` if that came first. */
  waitFor(id: number, process: NativeProcessRef, conditions: NativeConditions): void
  /** Ends with `done` and `logLines`, or with INVALID_OPTION. */
  logLines(id: number, process: NativeProcessRef, query: NativeLineQuery): void
  /** Ends with `done` once the pipe took the data, with an error if the input is closed or was never a pipe. */
  writeProcess(id: number, process: NativeProcessRef, data: Uint8Array): void
  closeProcessInput(process: NativeProcessRef): void
  /** For a process with a terminal. False if it has ended. */
  resizeProcess(process: NativeProcessRef, cols: number, rows: number): boolean
  /** Ends with `done` and `stats`, or with an error if the process has ended. */
  processStats(id: number, process: NativeProcessRef): void
  /** Ends with `done`, and with `waiting` if a program waits for input. */
  processWaiting(id: number, process: NativeProcessRef): void
  /** Ends with `done` and `listens`: whether and where a process of the tree listens on the TCP port. */
  processListens(id: number, process: NativeProcessRef, port: number): void
  /** Forgets a command and its log; no effect if it has become a process. */
  forgetCommand(number: number): void
  /** Forgets those of these processes that have ended, and their logs. Returns how many. */
  forgetProcesses(processIds: string[]): number
  /** Starts a durable job. Ends with `done` and `job`, once the command has been released. */
  startJob(id: number, job: NativeJobStart): void
  /** Ends with `done` and `jobStatus`. */
  jobStatus(id: number, jobId: string): void
  /** Ends with `done` and `jobStatus`, taken first, `data`, at most `maxBytes` from `cursor` on, and `atEnd`. */
  readJob(id: number, jobId: string, cursor: number, maxBytes: number): void
  /** Ends with `done` when there are more than `cursor` bytes of output, or the job is over; for null, only then. */
  awaitJob(id: number, jobId: string, cursor: number | null): void
  /** Ends with `done` once all processes of the job have exited. Null: the grace time from its start. */
  cancelJob(id: number, jobId: string, graceMs: number | null): void
  /** Ends with `done`, and `job` if there is such a job. */
  attachJob(id: number, jobId: string): void
  /** Ends with `done` and `jobs`. */
  listJobs(id: number): void
  removeJob(id: number, jobId: string): void
  /** Ends with `done`, and `file` if it exists. Here and below, the path cannot leave `root`. */
  fileStat(id: number, sessionId: string, path: Uint8Array, root: string | null): void
  fileChange(id: number, sessionId: string, action: NativeFileAction): void
  /** Ends with `done` and `files`, and a handle for fileNext if there may be more. */
  fileList(id: number, sessionId: string, path: Uint8Array, depth: number, root: string | null): void
  /** Ends with `done`, `file` and its first `data`, and a handle for fileReadAt if there may be more. */
  fileRead(id: number, sessionId: string, request: NativeFileRead): void
  /** Ends with `done` and `data`, shorter than `length` at the end of the file. */
  fileReadAt(id: number, handle: number, position: number, length: number): void
  /** Ends with `done` and `file`; with an error if nothing was changed. */
  fileWrite(id: number, sessionId: string, request: NativeFileWrite, data: Uint8Array): void
  /** Ends with `done` and a handle for fileWritePiece, fileCommit and fileRevert. */
  fileWriteOpen(id: number, sessionId: string, request: NativeFileWrite): void
  fileWritePiece(id: number, handle: number, data: Uint8Array): void
  /** Ends with `done` and `file`. */
  fileCommit(id: number, handle: number): void
  fileRevert(id: number, handle: number): void
  /** Ends with `done` and a handle for fileNext. */
  fileWatch(id: number, sessionId: string, path: Uint8Array, recursive: boolean): void
  /** Ends with `done` and `files` or `changes`: none at the end. */
  fileNext(id: number, handle: number): void
  fileClose(handle: number): void
  /** Ends with `done` and `workspaceChanges`. */
  workspaceChanges(id: number, paths: Uint8Array[] | null): void
  /** Ends with `done` and `data`, a patch in git's format. */
  workspaceDiff(id: number, paths: Uint8Array[] | null, maxBytes: number): void
  /** Ends with `done` and `commit`; with `paths` in the error if there are conflicts. */
  workspaceCommit(id: number, paths: Uint8Array[] | null, force: boolean, sync: boolean): void
  /** Ends with `done` and `discarded`. */
  workspaceDiscard(id: number, paths: Uint8Array[] | null): void
  /** Ends with `done` and `workspaces`. Null: those in the state directory, here and below. */
  listWorkspaces(id: number, directory: string | null): void
  deleteWorkspace(id: number, directory: string | null, name: string): void
  /** Ends with `done` and one of `points`. `rejects`: fails if programs use the workspace, here and below. */
  checkpoint(id: number, name: string | null, rejects: boolean): void
  /** Ends with `done` and `points`. */
  checkpoints(id: number): void
  deleteCheckpoint(id: number, number: number): void
  /** Ends with `done`, one of `points` and `rollback`. */
  rollBack(id: number, number: number | null): void
  /** Lets handles that were not used go on with the files and sessions of this one. Ends with `done` and `forked`. */
  fork(id: number, forks: NativeSandbox[], rejects: boolean): void
  /** Ends with `done` and `usage`. */
  workspaceUsage(id: number): void
  /**
   * Gives up a pending fileRead, fileReadAt, fileNext, awaitJob, waitProcess, waitFor, readEvents, readLog, logLines, workspaceChanges or workspaceDiff, or
   * the wait of workspaceCommit, workspaceDiscard, checkpoint or fork for running commands. The call then ends with an empty `done`.
   */
  abandon(id: number): void
  destroy(id: number): void
  ref(): void
  unref(): void
  capabilities(): NativeCapabilities
}

export interface NativeConfig {
  /** Absolute. */
  cwd: string
  /** The complete environment: two lists of one length. */
  envNames: string[]
  envValues: string[]
  /** Default: bash found on the PATH of the environment above. */
  shell?: string
  /** Absolute path of the supervisor executable. */
  supervisor: string
  surviveExit: boolean
  stateDir: string
  jobsRoot: string
  /** Limits of the whole sandbox; `openFiles`: of each process. */
  limits?: NativeLimits
  /** A name, or both numeric ids. */
  user?: NativeUser
  /** Variables that HOME, USER, LOGNAME and SHELL of `user` do not replace. */
  ownVariables?: string[]
  isolation?: NativeIsolation
  workspace?: NativeWorkspaceConfig
  engine?: 'builtin' | 'plain'
  containment?: 'cgroup' | 'subreaper'
  log?: boolean
}

export interface NativeSession {
  sessionId: string
  cwd?: string
  /** Changes to the sandbox's environment; null unsets. */
  envNames?: string[]
  envValues?: Array<string | null>
  surviveExit?: boolean
  /** Replaces the sandbox's rules. */
  isolation?: NativeIsolation
}

/** A directory that appears at another place. Both paths are absolute, without links. */
export interface NativeMount {
  source: string
  target: string
}

/** Rules with absolute paths, without links. */
export interface NativeIsolation {
  /** Absent: everything. */
  read?: string[]
  write: string[]
  hide: string[]
  protect: string[]
  mounts: NativeMount[]
  network: 'open' | 'closed' | 'proxy'
  /** Hosts with ports, for the `proxy` network mode. */
  allow: string[]
  ownProcesses: boolean
  bestEffort: boolean
}

export interface NativeCapabilities {
  cgroup: 'v2' | 'none'
  cgroupKill: boolean
  controllers: string[]
  pidfd: boolean
  procFd: boolean
  shell: string | null
  shellVersion: string | null
  engine: 'builtin' | 'plain'
  restored: string[]
  isolation: IsolationCapabilities
  workspace: WorkspaceCapabilities
  notes: string[]
}

/** A name in the user database, or numbers. */
export type NativeUser = { name: string } | { uid: number; gid: number }
