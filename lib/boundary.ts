/**
 * The types of the private boundary to the Rust addon: what `nacre.node` exports.
 *
 * One persistent callback per sandbox. Every asynchronous call carries a request id chosen here (1 to 2^32-1,
 * unique while pending) and ends with exactly one `result`, `done` or `error` event of that id. Times are in
 * milliseconds, sizes in bytes, signals are numbers. Everything is validated before it crosses.
 */
export interface NativeAddon {
  NativeSandbox: new (config: NativeConfig, onEvent: (event: NativeEvent) => void) => NativeSandbox
}

/** The handle of one sandbox. It is created unreferenced: it does not keep the event loop alive. */
export interface NativeSandbox {
  exec(id: number, request: NativeExec): void
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
  readLog(id: number, processId: string, cursor: number, maxBytes: number, follow: boolean): void
  /** `done` when the pipe took it; an error when the input is closed or was never a pipe. */
  writeProcess(id: number, processId: string, data: Uint8Array): void
  closeProcessInput(processId: string): void
  /** For a process with a terminal. False when it has ended. */
  resizeProcess(processId: string, cols: number, rows: number): boolean
  /** Ends by `done` with `stats`; an error when the process has ended. */
  processStats(id: number, processId: string): void
  /** Ends by `done` with `listens`: whether a process of the tree listens on the TCP port. */
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
  /** Gives up a pending awaitJob, waitProcess or readLog, which then ends by `done` without anything. */
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
  user?: { name: string } | { uid: number; gid: number }
  /** Variables that HOME, USER, LOGNAME and SHELL of `user` do not replace. */
  ownVariables?: string[]
  transport?: 'proc' | 'fifo'
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
}

/** Shell text or an argument list, and everything that applies to this one command. */
export interface NativeExec {
  sessionId: string
  text?: string
  argv?: string[]
  /** Absolute, or relative to the session's directory. */
  cwd?: string
  envNames?: string[]
  envValues?: Array<string | null>
  /** 0 = none. */
  timeout: number
  killSignal: number
  forceKillAfterDelay: number
  /** Bytes kept per stream. */
  maxBuffer: number
  encoding: 'utf8' | 'buffer'
  input: 'none' | 'bytes' | 'stream'
  inputBytes?: Uint8Array
  /** Also send `start` and `output` events. */
  events: boolean
}

/** A background process to be started. */
export interface NativeProcessStart {
  processId: string
  sessionId: string
  text?: string
  argv?: string[]
  /** As shown. */
  command: string
  /** Absolute, or relative to the session's directory. */
  cwd?: string
  envNames?: string[]
  envValues?: Array<string | null>
  /** 0 = none. */
  timeout: number
  killSignal: number
  forceKillAfterDelay: number
  /** `open` stays open for writeProcess. */
  input: 'none' | 'bytes' | 'open'
  inputBytes?: Uint8Array
  /** Bytes of log kept. */
  logLimit: number
  pty?: { cols: number; rows: number }
  limits?: NativeLimits
  /** Forgotten some time after its end. */
  autoCleanup: boolean
}

export interface NativeLimits {
  /** Bytes. */
  memory?: number
  /** Processors, a fraction allowed. */
  cpus?: number
  pids?: number
  openFiles?: number
}

export interface NativeProcess {
  processId: string
  sessionId: string
  pid: number
  command: string
  status: 'running' | 'completed' | 'failed' | 'killed' | 'error'
  /** Milliseconds since the epoch. */
  startedAt: number
  endedAt?: number
  exitCode?: number
  signal?: number
  reason?: 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'
}

export interface NativeLog {
  pieces: NativeLogPiece[]
  /** Where to go on reading. */
  next: number
  /** Bytes from `cursor` on that are not there any more: the oldest are dropped beyond `logLimit`. */
  dropped: number
  /** Bytes that could not be kept because the disk was full. */
  lost: number
  /** The process has ended and there is nothing after `next`. */
  ended: boolean
}

export interface NativeLogPiece {
  /** 1 is stdout, 2 is stderr. */
  stream: number
  /** Absolute offset in bytes of `data` in the whole log, both streams together. */
  cursor: number
  data: Buffer
  /** Milliseconds since the epoch. */
  time: number
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

export interface NativeEvent {
  id: number
  kind: 'start' | 'output' | 'result' | 'done' | 'error' | 'log'
  /** Of `start`. */
  pid?: number
  /** Of `output`: 1 is stdout, 2 is stderr. */
  stream?: number
  /** At most 256 KiB; of `done`: a part of a job's output. */
  data?: Buffer
  /** Of `result`; of `error` when there is a result so far. */
  result?: NativeResult
  /** Of `error`: a code of SandboxError. Of `log`: the level. */
  code?: string
  message?: string
  /** Of `done`, by call. */
  process?: NativeProcess
  killed?: boolean
  log?: NativeLog
  stats?: NativeStats
  listens?: boolean
  job?: NativeJob
  jobs?: NativeJob[]
  jobStatus?: NativeJobStatus
  /** There was nothing after `data`. */
  atEnd?: boolean
}

/** A durable job to be started. */
export interface NativeJobStart {
  jobId: string
  text?: string
  argv?: string[]
  /** As shown. */
  command: string
  /** Absolute. Default: the sandbox's. */
  cwd?: string
  envNames?: string[]
  envValues?: Array<string | null>
  processName?: string
  /** 0 = none. */
  timeout: number
  graceMs: number
  limits?: NativeLimits
  stdin?: Uint8Array
}

export interface NativeJob {
  jobId: string
  dir: string
  outputFile: string
  exitFile: string
  pgid: number
  cgroup?: string
  processName?: string
  createdAt: string
  /** Only of jobs of nacre's. */
  command?: string
  /** In a list. */
  status?: NativeJobStatus
}

export interface NativeJobStatus {
  state: 'running' | 'exited' | 'crashed'
  exitCode?: number
  signal?: number
  reason?: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot'
  alive: boolean
  endedAt?: string
  duration?: number
  outputLost: boolean
}

export interface NativeResult {
  exitCode?: number
  signal?: number
  /** A string only for encoding utf8 and up to 1 MiB. */
  stdout: string | Buffer
  stderr: string | Buffer
  /** Lengths in bytes of the alternating runs stdout, stderr, stdout, ... of what was kept; absent for one stream. */
  order?: Uint32Array
  cwd: string
  duration: number
  /** Milliseconds since the epoch. */
  startedAt: number
  timedOut: boolean
  isCanceled: boolean
  droppedStdout: number
  droppedStderr: number
  sessionRestarted: boolean
}

export interface NativeCapabilities {
  cgroup: 'v2' | 'none'
  cgroupKill: boolean
  controllers: string[]
  pidfd: boolean
  procFd: boolean
  shell: string | null
  shellVersion: string | null
  notes: string[]
}
