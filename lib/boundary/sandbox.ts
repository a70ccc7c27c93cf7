/** The handle of a sandbox, what it is made of, and its sessions. */
import type { IsolationCapabilities } from '../public/index.js'
import type { NativeExecExtras } from './exec.js'
import type { NativeFileAction, NativeFileRead, NativeFileWrite } from './file.js'
import type { NativeJobStart } from './job.js'
import type { NativeLimits, NativeProcess, NativeProcessStart } from './process.js'

/** The handle of one sandbox. It is created unreferenced: it does not keep the event loop alive. */
export interface NativeSandbox {
  /** Positional, and `extras` only where there are any: as an object, all of it takes longer to read than `true` to run. */
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
  ): void
  /**
   * Ends a pending exec: a queued one never runs, a running one is killed. It still ends by its one event. A second call
   * has an effect only with SIGKILL, which ends the grace time.
   */
  interrupt(id: number, signal: number | null): void
  /** Gives back permits, one per consumed `output` event; the engine sends at most 16 without one. */
  credit(id: number, count: number): void
  /** For `input: 'stream'`: `done` of `writeId` comes when the pipe took the bytes, or the command has ended. */
  write(id: number, writeId: number, data: Uint8Array): void
  closeInput(id: number): void
  setEnv(id: number, sessionId: string, names: string[], values: Array<string | null>): void
  createSession(id: number, session: NativeSession): void
  deleteSession(id: number, sessionId: string): void
  sessions(): string[]
  /** Ends by `done` with `process`, once the process has a pid. */
  startProcess(id: number, process: NativeProcessStart): void
  /** Everything known, in the order of the starts. A process is known until it is cleaned up. */
  processes(): NativeProcess[]
  /** One of them; null when it is not known. */
  process(processId: string): NativeProcess | null
  /** Ends by `done` with `killed`, when nothing of the process's tree is left; false when it had ended before. */
  killProcess(id: number, processId: string, signal: number, forceKillAfterDelay: number): void
  /** Ends by `done` with `process` when it has ended. */
  waitProcess(id: number, processId: string): void
  /**
   * Ends by `done` with `log`: at most `maxBytes` from `cursor` on. With `follow` it waits until there is something or
   * the process has ended; without, the answer may be empty.
   */
  /** The reader of a process with a `window` has taken everything before the cursor. */
  takeLog(processId: string, cursor: number): void
  /** Sends a signal to the process group, and nothing after it. False when the process has ended. */
  signalProcess(processId: string, signal: number): boolean
  readLog(id: number, processId: string, cursor: number, maxBytes: number, follow: boolean): void
  /** `done` when the pipe took it; an error when the input is closed or was never a pipe. */
  writeProcess(id: number, processId: string, data: Uint8Array): void
  closeProcessInput(processId: string): void
  /** For a process with a terminal. False when it has ended. */
  resizeProcess(processId: string, cols: number, rows: number): boolean
  /** Ends by `done` with `stats`; an error when the process has ended. */
  processStats(id: number, processId: string): void
  /** Ends by `done` with `listens`: whether and where a process of the tree listens on the TCP port. */
  processListens(id: number, processId: string, port: number): void
  /** Forgets ended processes and their logs; all of them or one. How many. */
  cleanUpProcesses(processId: string | null): number
  /** Durable jobs. Ends by `done` with `job`, once the command has been let go. */
  startJob(id: number, job: NativeJobStart): void
  /** Ends by `done` with `jobStatus`. */
  jobStatus(id: number, jobId: string): void
  /** Ends by `done` with `jobStatus`, taken first, `data`, at most `maxBytes` from `cursor` on, and `atEnd`. */
  readJob(id: number, jobId: string, cursor: number, maxBytes: number): void
  /** Ends by `done` when there are more than `cursor` bytes of output, or the job is over; null: only then. */
  awaitJob(id: number, jobId: string, cursor: number | null): void
  /** Ends by `done` when nothing of the job is left. Null: the grace time that it was started with. */
  cancelJob(id: number, jobId: string, graceMs: number | null): void
  /** Ends by `done` with `job`, or without when there is none. */
  attachJob(id: number, jobId: string): void
  /** Ends by `done` with `jobs`. */
  listJobs(id: number): void
  removeJob(id: number, jobId: string): void
  /** Ends by `done` with `file`, when there is one. `root`, here and below: what the path does not leave. */
  fileStat(id: number, sessionId: string, path: Uint8Array, root: string | null): void
  fileChange(id: number, sessionId: string, action: NativeFileAction): void
  /** Ends by `done` with `files`, and a handle for fileNext when there may be more. */
  fileList(id: number, sessionId: string, path: Uint8Array, depth: number, root: string | null): void
  /** Ends by `done` with `file` and its first `data`, and a handle for fileReadAt when there may be more. */
  fileRead(id: number, sessionId: string, request: NativeFileRead): void
  /** Ends by `done` with `data`, shorter than `length` at the end of the file. */
  fileReadAt(id: number, handle: number, position: number, length: number): void
  /** Ends by `done` with `file`; an error when nothing has changed. */
  fileWrite(id: number, sessionId: string, request: NativeFileWrite, data: Uint8Array): void
  /** Ends by `done` with a handle for fileWritePiece, fileCommit and fileRevert. */
  fileWriteOpen(id: number, sessionId: string, request: NativeFileWrite): void
  fileWritePiece(id: number, handle: number, data: Uint8Array): void
  /** Ends by `done` with `file`. */
  fileCommit(id: number, handle: number): void
  fileRevert(id: number, handle: number): void
  /** Ends by `done` with a handle for fileNext. */
  fileWatch(id: number, sessionId: string, path: Uint8Array, recursive: boolean): void
  /** Ends by `done` with `files` or `changes`: none at the end. */
  fileNext(id: number, handle: number): void
  fileClose(handle: number): void
  /** Gives up a pending fileRead, fileReadAt, fileNext, awaitJob, waitProcess or readLog, which then ends by `done` without anything. */
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
  /** What all of the sandbox together may use; `openFiles`: each process. */
  limits?: NativeLimits
  /** A name, or both numbers. */
  user?: NativeUser
  /** Variables that HOME, USER, LOGNAME and SHELL of `user` do not replace. */
  ownVariables?: string[]
  isolation?: NativeIsolation
  engine?: 'builtin' | 'plain'
  containment?: 'cgroup' | 'subreaper'
  log?: boolean
}

export interface NativeSession {
  sessionId: string
  cwd?: string
  /** Changes over the sandbox's environment; null unsets. */
  envNames?: string[]
  envValues?: Array<string | null>
  surviveExit?: boolean
  /** Replaces the sandbox's. */
  isolation?: NativeIsolation
}

/** Rules with absolute paths, without links. */
export interface NativeIsolation {
  /** Absent: everything. */
  read?: string[]
  write: string[]
  hide: string[]
  protect: string[]
  network: 'open' | 'closed' | 'proxy'
  /** Hosts with ports, for `proxy`. */
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
  notes: string[]
}

/** A name in the user database, or numbers. */
export type NativeUser = { name: string } | { uid: number; gid: number }
