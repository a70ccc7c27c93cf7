/**
 * The types of the private boundary to the Rust addon: what `nacre.node` exports. scripts/boundary.mjs writes this file.
 *
 * One persistent callback per sandbox. Every asynchronous call carries a request id chosen here (1 to 2^32-1,
 * unique while pending) and ends with exactly one `result`, `done` or `error` event of that id. Times are in
 * milliseconds, sizes in bytes, signals are numbers. Everything is validated before it crosses.
 */

/**
 * What a method returns whose call ends later: the `value` of its `done` event is a `T`. There is no such value: the method
 * returns undefined.
 */
export interface Pending<T> {
  readonly answer: T
}

export interface NativeAddon {
  NativeSandbox: new (config: NativeConfig, onEvent: (arg: NativeEvent) => void) => NativeSandbox
  /** The home directory of a user; null if this process cannot run programs as that user. */
  homeOf(user: NativeUser): string | null
}

/** The command that has kept another one waiting. */
export interface NativeBlocker {
  /** The command as displayed, perhaps cut. */
  command: string
  /** Whether its caller holds it up by not reading its output. */
  isUnread: boolean
  /** Milliseconds since the epoch. */
  startedAt: number
}

/** The capabilities of this system. */
export interface NativeCapabilities {
  /** `v2` or `none`. */
  cgroup: 'v2' | 'none'
  /** Whether the kernel can kill a whole group with one write. */
  cgroupKill: boolean
  /** Enabled controllers. */
  controllers: Array<string>
  /** Whether pidfd_open works. */
  pidfd: boolean
  /** Whether `/proc/self/fd` can be opened. */
  procFd: boolean
  /** Path of bash. */
  shell: string | null
  /** Its version. */
  shellVersion: string | null
  /** `plain`: without the builtin. */
  engine: 'builtin' | 'plain'
  /** The parts of the state that one command leaves to the next. */
  restored: Array<string>
  /** The mechanisms that enforce the rules of `isolation`. */
  isolation: NativeTiers
  /** What copy-on-write workspaces can do. */
  workspace: NativeWorkspaceOffer
  /** Missing features and their replacements. */
  notes: Array<string>
}

/** Changed paths, in columns: an object of each, made at once, would stall the event loop. */
export interface NativeChanges {
  /** Relative to the workspace, with a NUL after each. */
  paths: Buffer
  /**
   * Three letters of each: what has happened to it (`c`reated, `m`odified, `d`eleted, `r`eplaced, metad`a`ta), what it is in
   * the workspace, and in the real directory (`f`ile, `d`irectory, sym`l`ink, f`i`fo, `s`ocket, de`v`ice, or `-` for nothing).
   */
  kinds: Buffer
  /** Four numbers of each: bytes and permissions in the workspace, then in the real directory. */
  numbers: Float64Array
  /** The changes that a commit leaves out unless a path names them. */
  withheld: Array<NativeWithheld>
}

/** What a commit has applied. */
export interface NativeCommit {
  /** The number of changes. */
  applied: number
  /** The changes that could not be applied. */
  skipped: Array<NativeSkipped>
}

/** What to wait for, besides the end of a process. */
export interface NativeConditions {
  /** Whether a program waits for input. */
  input: boolean
  /** A line to wait for. */
  log?: NativeWantedLine
  /** Milliseconds without output. */
  idle?: number
  /** Milliseconds, 0 for none. */
  timeout: number
}

/** Configuration of a sandbox. */
export interface NativeConfig {
  /** Absolute. */
  cwd: string
  /** The names of the complete environment; as many as values. */
  envNames: Array<string>
  /** The values of the environment. */
  envValues: Array<string>
  /** Default: bash found on the PATH of the environment above. */
  shell?: string
  /** Absolute path of the supervisor executable. */
  supervisor: string
  /** `exit` ends only the command. */
  surviveExit: boolean
  /** The directory for everything that the sandbox stores on disk. */
  stateDir: string
  /** Directory of the durable jobs. */
  jobsRoot: string
  /** Limits of the whole sandbox; `openFiles`: of each process. */
  limits?: NativeLimits
  /** A name, or both numeric ids. */
  user?: NativeUser
  /** Variables that HOME, USER, LOGNAME and SHELL of `user` do not replace. */
  ownVariables?: Array<string>
  /** What programs may read, write, reach and see. */
  isolation?: NativeIsolation
  /** The copy-on-write workspace. */
  workspace?: NativeWorkspaceConfig
  /** `plain` forces the fallback. */
  engine?: 'builtin' | 'plain'
  /** `subreaper` forces the fallback. */
  containment?: 'cgroup' | 'subreaper'
  /** Send `log` events. */
  log?: boolean
}

/** The process that a command can become. */
export interface NativeDetachedProcess {
  /** Unique in the sandbox. */
  processId: string
  /** The command as displayed. */
  command: string
  /** Bytes of log kept. */
  logLimit: number
  /** The log begins with the command, and not when it becomes a process. */
  keepsLog: boolean
  /** Whether it is forgotten some time after its end. */
  autoCleanup: boolean
}

/** An event. A call ends with one `result`, `done` or `error`. */
export type NativeEvent =
  | {
      kind: 'start'
      /** Of the call. */
      id: number
      /** The pid of its shell. */
      pid: number
    }
  | {
      kind: 'output'
      /** Of the call. */
      id: number
      /** 1 is stdout, 2 is stderr. */
      stream: number
      /** At most 256 KiB. */
      data: Buffer
    }
  | {
      kind: 'result'
      /** Of the call. */
      id: number
      /** What it returns. */
      result: NativeResult
    }
  | {
      kind: 'done'
      /** Of the call. */
      id: number
      /** What the call returns: the `T` of its `Pending<T>`. */
      value: unknown
    }
  | {
      kind: 'error'
      /** Of the call. */
      id: number
      /** A code of SandboxError. */
      code: string
      /** In one sentence. */
      message: string
      /** The file concerned. */
      path?: string
      /** The paths in conflict, relative to the workspace. */
      paths?: Array<string>
      /** Of a command: the result so far. */
      result?: NativeResult
    }
  | {
      kind: 'log'
      /** How much it matters. */
      level: 'debug' | 'info' | 'warn' | 'error'
      /** In one line. */
      message: string
    }
  | {
      kind: 'question'
      /** To which host. */
      question: NativeQuestion
    }

/** Options that few commands have. Other commands omit it: reading a property costs more than passing a number. */
export interface NativeExecExtras {
  /** Arguments, instead of shell text. */
  argv?: Array<string>
  /** For this command only. */
  cwd?: string
  /** For this command only. */
  envNames?: Array<string>
  /** Null unsets. */
  envValues?: Array<string | null>
  /** `stream`: by `write` and `closeInput`. */
  input: 'none' | 'bytes' | 'stream'
  /** The bytes, for `bytes`. */
  inputBytes?: Uint8Array
  /** Both streams through one pipe, as stdout. */
  mergeOutput?: boolean
  /** The size of its terminal, if it has one. */
  pty?: NativePty
  /** Bytes of both streams together, after which the command is killed. */
  outputLimit?: number
  /** Also send the event `start`. */
  start?: boolean
  /** Also send `start` and `output` events. */
  events: boolean
  /** Maximum output events in flight; default: WINDOW in `src/pending.rs`. */
  window?: number
  /** The process that the command can become. Only for streams. */
  process?: NativeDetachedProcess
}

/** Events that were read. */
export interface NativeFeed {
  /** In order. */
  events: Array<NativeFeedEvent>
  /** How many events before them are no longer kept. */
  lost: number
  /** Nothing follows. */
  isOver: boolean
}

/** An event. Which members are set depends on its kind. */
export interface NativeFeedEvent {
  /** Its number. */
  cursor: number
  /** Milliseconds since the epoch. */
  time: number
  /** Where it has happened. */
  sessionId: string
  /** What has happened. */
  kind:
    | 'sessionStarted'
    | 'sessionEnded'
    | 'commandQueued'
    | 'commandStarted'
    | 'commandOutput'
    | 'commandWaiting'
    | 'processWaiting'
    | 'commandDetached'
    | 'commandEnded'
    | 'processStarted'
    | 'processResized'
    | 'processEnded'
    | 'serviceRestarted'
    | 'denied'
    | 'appeared'
    | 'withheld'
    | 'asked'
    | 'answered'
  /** The command or the process. */
  id?: string
  /** As displayed. */
  command?: string
  /** The pid. */
  pid?: number
  /** Bytes of both streams so far. */
  total?: Array<number>
  /** The newest bytes of standard output. */
  stdout?: Buffer
  /** The newest bytes of standard error. */
  stderr?: Buffer
  /** What a program waits for. */
  waiting?: NativeWaiting
  /** The process that a command has become. */
  processId?: string
  /** Exit code, if it exited. */
  exitCode?: number
  /** Signal, if a signal ended it. */
  signal?: number
  /** Why a process ended. */
  reason?: 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'
  /** What has killed it. */
  killedBy?: NativeKilledBy
  /** Milliseconds. */
  duration?: number
  /** The directory after a command. */
  cwd?: string
  /** The size of the terminal of a process, if it has one. */
  terminal?: NativePty
  /** Restarts so far. */
  restarts?: number
  /** What was refused, withheld or asked for. */
  target?: string
  /** When a question is over; milliseconds since the epoch. */
  expiresAt?: number
  /** The answer to a question, if there was one. */
  answer?: 'once' | 'session' | 'deny'
}

/** A file. */
export interface NativeFile {
  /** The path as given, or joined to the given path. */
  path: string
  /** The path as bytes, if it is not UTF-8. */
  pathBytes?: Buffer
  /** Its kind. */
  kind: 'file' | 'directory' | 'symlink' | 'other'
  /** Bytes. */
  size: number
  /** Permission bits. */
  mode: number
  /** The user that owns it. */
  uid: number
  /** The group that owns it. */
  gid: number
  /** Milliseconds since the epoch. */
  modified: number
  /** The target of a symlink. */
  target?: string
  /** For an opened file: changes when the path names another file, or the file's content changes. */
  version?: string
}

/** A call that changes files and returns nothing. */
export interface NativeFileAction {
  /** Its kind. */
  kind: 'mkdir' | 'rename' | 'copy' | 'remove'
  /** The file. */
  path: Uint8Array
  /** For `rename` and `copy`. */
  to?: Uint8Array
  /** For `copy` and `remove`. */
  recursive: boolean
  /** A root that the path cannot leave; not for `rename` and `copy`. */
  root?: string
}

/** A change below a watched path. */
export interface NativeFileChange {
  /** Its kind. */
  kind: 'created' | 'modified' | 'deleted' | 'renamed' | 'overflow'
  /** The path, or the new one. */
  path: string
  /** The path, if it is not UTF-8. */
  pathBytes?: Buffer
  /** The path before a rename. */
  oldPath?: string
  /** The path before a rename, if it is not UTF-8. */
  oldPathBytes?: Buffer
}

/** The beginning of a list. */
export interface NativeFileList {
  /** The first files. */
  files: Array<NativeFile>
  /** For fileListNext; absent if these are all. */
  handle?: number
}

/** What to read when a file is opened. */
export interface NativeFileRead {
  /** The file. */
  path: Uint8Array
  /** The first byte. */
  position: number
  /** Bytes. */
  length: number
  /** A larger file is refused. */
  maxSize?: number
  /** A root that the path cannot leave. */
  root?: string
}

/** How to write a file. */
export interface NativeFileWrite {
  /** The file. */
  path: Uint8Array
  /** Its permissions. */
  mode?: number
  /** Whether to append. */
  append: boolean
  /** Extended attributes of the new file, by their names. Not with `append`. */
  attributes?: Record<string, string>
  /** A root that the path cannot leave. */
  root?: string
}

/** What a wait was for, and the process then. */
export interface NativeFirst {
  /** What came first. */
  first: 'exit' | 'input' | 'log' | 'idle' | 'timeout'
  /** The process. */
  process?: NativeProcess
  /** The line, for `log`. */
  logLines?: NativeLogLines
  /** The program, for `input`. */
  waiting?: NativeWaiting
}

/** Rules with absolute paths, without links. */
export interface NativeIsolation {
  /** Readable trees; absent: everything. */
  read?: Array<string>
  /** Writable trees. */
  write: Array<string>
  /** Trees that appear empty. */
  hide: Array<string>
  /** Trees that are never writable. */
  protect: Array<string>
  /** Directories that appear at another place. */
  mounts: Array<NativeMount>
  /** `proxy`: only the hosts of `allow`. */
  network: 'open' | 'closed' | 'proxy'
  /** Hosts with ports. */
  allow: Array<string>
  /** Hosts with ports that `proxy` refuses, even within `allow`. */
  deny: Array<string>
  /** Milliseconds that a question about another host waits for its answer; absent: such hosts are refused. */
  ask?: number
  /** Names the function that answers, if there is one. */
  answerer?: string
  /** Programs see and signal only their session's processes. */
  ownProcesses: boolean
  /** Whether to drop rules that cannot be enforced. */
  bestEffort: boolean
  /** `project`: protects what programs of the machine run later; `repository`: also lets git write to the repository of cwd. */
  guarding: 'off' | 'project' | 'repository'
  /** Tools get a private place for their caches. */
  privateCaches: boolean
}

/** A durable job. */
export interface NativeJob {
  /** The job's id. */
  jobId: string
  /** Absolute. */
  dir: string
  /** Absolute. */
  outputFile: string
  /** Absolute. */
  exitFile: string
  /** The process group that receives signals. */
  pgid: number
  /** Directory of its control group. */
  cgroup?: string
  /** A label for people. */
  processName?: string
  /** ISO 8601. */
  createdAt: string
  /** As displayed; only for jobs that nacre started. */
  command?: string
  /** The state, in lists. */
  status?: NativeJobStatus
}

/** A part of a job's output. */
export interface NativeJobOutput {
  /** The state, read before the output. */
  status: NativeJobStatus
  /** The bytes. */
  data: Buffer
  /** Whether nothing follows them. */
  atEnd: boolean
}

/** A durable job to start. */
export interface NativeJobStart {
  /** The job's id. */
  jobId: string
  /** Shell text. */
  text?: string
  /** Arguments, instead of shell text. */
  argv?: Array<string>
  /** The command as displayed. */
  command: string
  /** Replaces the sandbox's directory; absolute. */
  cwd?: string
  /** Changes to the sandbox's environment. */
  envNames?: Array<string>
  /** Null unsets. */
  envValues?: Array<string | null>
  /** A label for people. */
  processName?: string
  /** Milliseconds, 0 for none. */
  timeout: number
  /** Milliseconds between SIGTERM and SIGKILL. */
  graceMs: number
  /** Replaces the sandbox's limits. */
  limits?: NativeLimits
  /** Standard input. */
  stdin?: Uint8Array
}

/** The state of a durable job. */
export interface NativeJobStatus {
  /** `crashed`: its supervisor was killed, or the machine was started anew. */
  state: 'running' | 'exited' | 'crashed'
  /** Exit code, if it exited. */
  exitCode?: number
  /** Signal, if a signal ended it. */
  signal?: number
  /** `exit`, `signal`, `timeout`, `cancelled`, `oom`; for a crash `killed` or `reboot`. */
  reason?: 'exit' | 'signal' | 'timeout' | 'cancelled' | 'oom' | 'killed' | 'reboot'
  /** Whether any process of the job is running. */
  alive: boolean
  /** ISO 8601. */
  endedAt?: string
  /** Milliseconds. */
  duration?: number
  /** Whether the disk was full while it ran. */
  outputLost: boolean
}

/** What kills a command or a process, and why. */
export interface NativeKilledBy {
  /** What kills it. */
  by: 'timeout' | 'abort' | 'caller' | 'oom' | 'outputLimit' | 'session'
  /** In the caller's words. */
  reason?: string
}

/** Limits of a process. */
export interface NativeLimits {
  /** Bytes. */
  memory?: number
  /** Processors; may be a fraction. */
  cpus?: number
  /** Processes. */
  pids?: number
  /** Descriptors. */
  openFiles?: number
}

/** Which lines of a log to read. */
export interface NativeLineQuery {
  /** The first line; a negative number counts from the end. */
  fromLine: number
  /** Maximum lines of the reply. */
  lines: number
  /** The last lines instead of the first. */
  tail: boolean
  /** Only lines that match. */
  grep?: string
  /** Lines around each match. */
  context: number
}

/** A part of a log. */
export interface NativeLog {
  /** In order. */
  pieces: Array<NativeLogPiece>
  /** The cursor to continue reading at. */
  next: number
  /** Bytes from `cursor` on that no longer exist: beyond `logLimit`, the oldest are dropped. */
  dropped: number
  /** Bytes that could not be kept because the disk was full. */
  lost: number
  /** The process has ended and nothing follows `next`. */
  ended: boolean
}

/** Lines of a log. The arrays have an entry for each line. */
export interface NativeLogLines {
  /** All lines without their ends, one after another. */
  data: Buffer
  /** Where each line ends in `data`. */
  ends: Array<number>
  /** Its number. */
  numbers: Array<number>
  /** The sum of: 1 for stderr, 2 for a match, 4 for missing bytes, 8 for a line without a newline. */
  flags: Array<number>
  /** Lines of the whole log. */
  total: number
  /** The first kept line. */
  first: number
  /** Of a line that a wait was for: the text that matches, if that is not the line. */
  input?: string
  /**
   * Of such a line: where the match and its groups begin and end in that text, in units of UTF-16; -1 for a group
   * without part in the match.
   */
  spans?: Array<number>
  /** How many lines match. */
  matches?: number
  /** The first line that was left out because of the limits. */
  next?: number
}

/** A piece of one stream. */
export interface NativeLogPiece {
  /** 1 is stdout, 2 is stderr. */
  stream: number
  /** Absolute offset in bytes of `data` in the whole log, counting both streams. */
  cursor: number
  /** Never empty. */
  data: Buffer
  /** Milliseconds since the epoch. */
  time: number
}

/** An item of a session's state that was lost. */
export interface NativeLostState {
  /** What it is. */
  kind: string
  /** Its name. */
  name: string
  /** Why it is lost. */
  reason: string
}

/** A directory that appears at another place. Both paths are absolute, without links. */
export interface NativeMount {
  /** The machine's directory. */
  source: string
  /** Where programs see it. */
  target: string
}

/** A workspace whose layers are kept. */
export interface NativeNamed {
  /** Its name. */
  name: string
  /** The real directory; absent if the note about it is damaged, or of another version. */
  path?: string
  /** Whether a sandbox has it open. */
  inUse: boolean
  /** When it was last used, in seconds since 1970. */
  usedAt: number
}

/** A file that was opened for reading. */
export interface NativeOpenFile {
  /** The file. */
  file: NativeFile
  /** Its first bytes. */
  data: Buffer
  /** For fileReadAt; absent if these are all. */
  handle?: number
}

/** A checkpoint. */
export interface NativePoint {
  /** Identifies it in its workspace. */
  number: number
  /** A label. */
  name?: string
  /** In milliseconds since 1970. */
  createdAt: number
  /** The ids of the sessions. */
  sessions: Array<string>
}

/** A TCP port on which a program listens. */
export interface NativePort {
  /** Its number. */
  port: number
  /** The address, without the port. */
  address: string
  /** The program's process. */
  pid: number
  /** The beginning of its command line. */
  command: string
  /** Its session. */
  sessionId: string
  /** The background process that it belongs to. */
  processId?: string
}

/** The current state of a background process. */
export interface NativeProcess {
  /** Unique in the sandbox. */
  processId: string
  /** No other process ever has this number. */
  number: number
  /** The session whose state it started from. */
  sessionId: string
  /** Its pid. */
  pid: number
  /** The command as displayed. */
  command: string
  /** `killed`: by its caller or its session. */
  state: 'running' | 'exited' | 'killed' | 'crashed'
  /** Milliseconds since the epoch. */
  startedAt: number
  /** Milliseconds since the epoch. */
  endedAt?: number
  /** Milliseconds since the epoch. */
  lastOutputAt?: number
  /** Milliseconds since the epoch. */
  lastInputAt?: number
  /** Its terminal, while it runs. */
  terminal?: NativeTerminal
  /** Exit code, if it exited. */
  exitCode?: number
  /** Signal, if a signal ended it. */
  signal?: number
  /** What ended it. */
  reason?: 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'
  /** What has killed it. */
  killedBy?: NativeKilledBy
}

/** Names one process for ever: its id can belong to another process once it was forgotten. */
export interface NativeProcessRef {
  /** For messages. */
  processId: string
  /** No other process ever has it. */
  number: number
}

/** A background process to start. */
export interface NativeProcessStart {
  /** Unique in the sandbox. */
  processId: string
  /** The session whose state it starts from. */
  sessionId: string
  /** Shell text. */
  text?: string
  /** Arguments, instead of shell text. */
  argv?: Array<string>
  /** The command as displayed. */
  command: string
  /** Replaces the session's directory. */
  cwd?: string
  /** Changes to the session's variables. */
  envNames?: Array<string>
  /** Null unsets. */
  envValues?: Array<string | null>
  /** Milliseconds, 0 for none. */
  timeout: number
  /** First signal of the ladder, for the timeout. */
  killSignal: number
  /** Milliseconds until SIGKILL. */
  forceKillAfterDelay: number
  /** `open` keeps the input open for writeProcess. */
  input: 'none' | 'bytes' | 'open'
  /** The bytes, for `bytes`. */
  inputBytes?: Uint8Array
  /** Both streams through one pipe. */
  mergeOutput: boolean
  /** Bytes of log kept. */
  logLimit: number
  /** Bytes of output that may wait for the reader; beyond that, the process blocks. Absent: no limit. */
  window?: number
  /** The size of its terminal, if it has one. */
  pty?: NativePty
  /** Its limits. */
  limits?: NativeLimits
  /** Whether to forget it some time after its end. */
  autoCleanup: boolean
  /** Whether to keep it out of the feed of events. */
  hidden?: boolean
}

/** The size of a terminal. */
export interface NativePty {
  /** Columns. */
  cols: number
  /** Rows. */
  rows: number
}

/** A connection that waits for an answer. */
export interface NativeQuestion {
  /** Unique in its sandbox. */
  id: string
  /** The session whose program wants to connect. */
  sessionId: string
  /** Host and port. */
  target: string
  /** Milliseconds since the epoch. */
  askedAt: number
  /** Milliseconds since the epoch. */
  expiresAt: number
  /** Names the function that answers, if there is one. */
  answerer?: string
}

/** The result of a command. Rare properties are only present if set: each property costs time. */
export interface NativeResult {
  /** `$?`. */
  exitCode?: number
  /** The signal that ended it. */
  signal?: number
  /** A string only with encoding utf8 and up to 1 MiB. */
  stdout: string | Buffer
  /** Text up to 1 MiB, else bytes. */
  stderr: string | Buffer
  /** Lengths in bytes of the kept runs, alternating stdout, stderr, stdout, ...; absent if there is only one stream. */
  order?: Uint32Array
  /** The session's directory afterwards. */
  cwd: string
  /** Milliseconds. */
  duration: number
  /** Milliseconds since the epoch. */
  startedAt: number
  /** Whether the timeout killed it. */
  timedOut?: boolean
  /** Whether the caller cancelled it. */
  cancelled?: boolean
  /** What has killed it. */
  killedBy?: NativeKilledBy
  /** What ran when it timed out before its turn. */
  waitedFor?: NativeBlocker
  /** Whether it printed more than its limit. */
  outputLimited?: boolean
  /** Bytes not kept. */
  droppedStdout?: number
  /** Bytes not kept. */
  droppedStderr?: number
  /** Whether the shell died and was replaced. */
  sessionRestarted?: boolean
  /** Items of the session's state that were lost before the command. */
  lostState?: Array<NativeLostState>
  /** Destinations that the session's proxy refused. */
  denials?: Array<string>
  /** Keys of git's config that the machine's file did not get. */
  withheld?: Array<string>
}

/** What a rollback has done. */
export interface NativeRollback {
  /** The checkpoint. */
  point: NativePoint
  /** The command before which the checkpoint was made, if it is an automatic one. */
  command?: string
  /** The ids of background processes. */
  endedProcesses: Array<string>
  /** The ids of sessions. */
  endedSessions: Array<string>
  /** What shells had at the checkpoint and do not have now. */
  missing: Array<string>
}

/** A command that runs or waits. */
export interface NativeRunning {
  /** The id of its call. */
  id: number
  /** As displayed. */
  command: string
  /** Milliseconds since the epoch; absent while it waits, like the rest. */
  startedAt?: number
  /** The pid of its shell. */
  pid?: number
  /** Bytes. */
  stdoutBytes?: number
  /** Bytes. */
  stderrBytes?: number
  /** Milliseconds since the epoch. */
  lastOutputAt?: number
}

/** A sandbox. Ends everything it started when it is garbage-collected or its thread exits. */
export interface NativeSandbox {
  /** The number of the last event. The caller counts as a reader of what follows. */
  lastEvent(): number
  /** Reads at most `most` events after `since`, for which it waits. */
  readEvents(id: number, since: number, most: number): Pending<NativeFeed | null>
  /** Adds that a service has been started again. */
  serviceRestarted(sessionId: string, processId: string, restarts: number): void
  /** Describes a file, if it exists. Here and below, the path cannot leave `root`. */
  fileStat(
    id: number,
    sessionId: string,
    path: Uint8Array,
    follow: boolean,
    root?: string | undefined | null,
  ): Pending<NativeFile | null>
  /** Creates a directory, or renames, copies or removes a file. */
  fileChange(id: number, sessionId: string, action: NativeFileAction): Pending<undefined>
  /** Lists a directory of at most `most` entries. */
  fileList(
    id: number,
    sessionId: string,
    path: Uint8Array,
    depth: number,
    most: number,
    root?: string | undefined | null,
  ): Pending<NativeFileList | null>
  /** Opens a file and reads its beginning. Refuses more than `max_size` bytes. */
  fileRead(id: number, sessionId: string, request: NativeFileRead): Pending<NativeOpenFile | null>
  /** Reads a part of an open file, shorter than `length` at the end of the file. */
  fileReadAt(id: number, handle: number, position: number, length: number): Pending<Buffer | null>
  /** The extended attributes of a regular file whose names begin with `prefix`. */
  fileAttributes(
    id: number,
    sessionId: string,
    path: Uint8Array,
    prefix: string,
  ): Pending<Record<string, string> | null>
  /** Writes a whole file. Fails if nothing was changed. */
  fileWrite(
    id: number,
    sessionId: string,
    request: NativeFileWrite,
    data: Uint8Array,
  ): Pending<NativeFile | null>
  /** Opens a file for writing in pieces. Returns a handle for fileWritePiece, fileCommit and fileRevert. */
  fileWriteOpen(id: number, sessionId: string, request: NativeFileWrite): Pending<number | null>
  /** Writes a piece. */
  fileWritePiece(id: number, handle: number, data: Uint8Array): Pending<undefined | null>
  /** Commits a write: the file now has its content. */
  fileCommit(id: number, handle: number): Pending<NativeFile | null>
  /** Reverts a write. Ends once nothing of it is left. */
  fileRevert(id: number, handle: number): Pending<undefined | null>
  /** Starts watching. Returns a handle for fileWatchNext. */
  fileWatch(id: number, sessionId: string, path: Uint8Array, recursive: boolean): Pending<number | null>
  /** The next files of a list: none at the end. */
  fileListNext(id: number, handle: number): Pending<Array<NativeFile> | null>
  /** The next changes that a watch sees. */
  fileWatchNext(id: number, handle: number): Pending<Array<NativeFileChange> | null>
  /** Closes something that a call has opened. A write that was not committed is reverted. */
  fileClose(handle: number): void
  /** Starts a durable job. Ends once the command has been released. */
  startJob(id: number, request: NativeJobStart): Pending<NativeJob>
  /** Reads the state of a job. */
  jobStatus(id: number, jobId: string): Pending<NativeJobStatus>
  /** Reads a part of a job's output: at most `maxBytes` from `cursor` on. */
  readJob(id: number, jobId: string, cursor: number, maxBytes: number): Pending<NativeJobOutput>
  /** Waits for more than `cursor` bytes of output, or the end of the job; for null, only for that. */
  awaitJob(id: number, jobId: string, cursor?: number | undefined | null): Pending<undefined>
  /** Cancels a job. Ends once all processes of the job have exited. Null: the grace time from its start. */
  cancelJob(id: number, jobId: string, graceMs?: number | undefined | null): Pending<undefined>
  /** Finds a job, if there is such a job. */
  attachJob(id: number, jobId: string): Pending<NativeJob | null>
  /** Lists all jobs. */
  listJobs(id: number): Pending<Array<NativeJob>>
  /** Removes a job's directory. */
  removeJob(id: number, jobId: string): Pending<undefined>
  /** Starts a process. Ends once the process has a pid. */
  startProcess(id: number, request: NativeProcessStart): Pending<NativeProcess>
  /** All known processes, in the order of their starts. A process is known until it is cleaned up. */
  processes(): Array<NativeProcess>
  /** Finds the present process with this id. */
  process(processId: string): NativeProcess | null
  /** Kills a process with its tree. Ends once the process's whole tree has exited; false if it had ended before. */
  killProcess(
    id: number,
    process: NativeProcessRef,
    signal: number,
    forceKillAfterDelay: number,
    by: NativeKilledBy,
  ): Pending<boolean>
  /** Waits for the end of a process. */
  waitProcess(id: number, process: NativeProcessRef): Pending<NativeProcess | null>
  /**
   * Reads at most `maxBytes` of a log, from `cursor` on. With `follow` it waits for output or the end of the process;
   * without, there may be none.
   */
  readLog(
    id: number,
    process: NativeProcessRef,
    cursor: number,
    maxBytes: number,
    follow: boolean,
  ): Pending<NativeLog | null>
  /** Waits for the first of several things. */
  waitFor(id: number, process: NativeProcessRef, conditions: NativeConditions): Pending<NativeFirst | null>
  /** Reads lines of a log. May fail with INVALID_OPTION. */
  logLines(id: number, process: NativeProcessRef, query: NativeLineQuery): Pending<NativeLogLines | null>
  /**
   * Gives up a pending awaitJob, or one whose `Pending` allows null: the call then ends with null. Those that change
   * something give up only their wait for running commands.
   */
  abandon(id: number): void
  /** Reports that the reader of a process with a `window` has taken everything before the cursor. */
  takeLog(process: NativeProcessRef, cursor: number): void
  /** Sends a signal to the process group, with no further escalation. False if the process has ended. */
  signalProcess(process: NativeProcessRef, signal: number): boolean
  /**
   * Sends a piece of standard input. Ends once the pipe took the data, with an error if the input is closed or was never a
   * pipe.
   */
  writeProcess(id: number, process: NativeProcessRef, data: Uint8Array): Pending<undefined>
  /** Closes standard input. */
  closeProcessInput(process: NativeProcessRef): void
  /** Sets the size of a terminal. False if the process has ended. */
  resizeProcess(process: NativeProcessRef, cols: number, rows: number): boolean
  /** Reads the resource usage of a process and its tree. Fails if the process has ended. */
  processStats(id: number, process: NativeProcessRef): Pending<NativeStats>
  /** The program that waits for input, if one does. */
  processWaiting(id: number, process: NativeProcessRef): Pending<NativeWaiting | null>
  /** Whether a process of the tree listens on the TCP port. */
  processListens(id: number, process: NativeProcessRef, port: number): Pending<boolean>
  /** Forgets a command and its log. No effect if it has become a process. */
  forgetCommand(number: number): void
  /** Forgets those of these processes that have ended, and their logs. Returns how many. */
  forgetProcesses(processIds: Array<string>): number
  /** Lists the questions that wait for an answer. */
  questions(): Array<NativeQuestion>
  /** Answers a question. False if it is not open. */
  answerQuestion(questionId: string, answer: 'once' | 'session' | 'deny'): boolean
  /**
   * Queues a command. Returns the number of the process that it can become, or its last event, if the command has ended
   * at once. Positional, with `extras` only where needed: reading an object would take longer than running `true`.
   */
  exec(
    id: number,
    sessionId: string,
    text: string | undefined | null,
    timeout: number,
    killSignal: number,
    forceKillAfterDelay: number,
    maxBuffer: number,
    asText: boolean,
    extras?: NativeExecExtras | undefined | null,
  ): number | NativeEvent | null
  /**
   * Ends a pending exec: a queued command never runs, a running one is killed. The exec still ends with its one
   * event. A second call only has an effect with SIGKILL, which cuts the grace time short.
   */
  interrupt(id: number, signal: number | undefined | null, by: NativeKilledBy): void
  /** Kills a command, whichever caller has made it. Ends once that has ended; false if there is none. */
  killCommand(
    id: number,
    sessionId: string,
    command: number,
    signal: number | undefined | null,
    by: NativeKilledBy,
  ): Pending<boolean>
  /**
   * Makes a running command a process, and frees its session. With `endsCall` the exec ends now, with its result so far;
   * otherwise it goes on to its one event.
   */
  detach(id: number, execId: number, endsCall: boolean): Pending<NativeProcess>
  /** Returns permits, one per consumed `output` event; the engine sends at most 16 events without. */
  credit(id: number, count: number): void
  /** Sends a piece of standard input, for `input: 'stream'`. Ends once the pipe took the bytes, or the command has ended. */
  write(id: number, writeId: number, data: Uint8Array): Pending<undefined>
  /** Closes standard input. */
  closeInput(id: number): void
  /** Sets and unsets variables of a session. */
  setEnv(
    id: number,
    sessionId: string,
    names: Array<string>,
    values: Array<string | null>,
  ): Pending<undefined>
  /** Creates a session. */
  createSession(id: number, session: NativeSession): Pending<undefined>
  /** Ends a session. */
  deleteSession(id: number, sessionId: string): Pending<undefined>
  /** Lists the ids of the sessions. */
  sessions(): Array<string>
  /** Looks up the running and queued commands of a session. */
  running(id: number, sessionId: string): Pending<Array<NativeRunning>>
  /** Reads the resource usage of a session, or of all of them. */
  stats(id: number, sessionId?: string | undefined | null): Pending<NativeStats>
  /** Lists where the programs of a session listen, or of all of them. */
  ports(id: number, sessionId?: string | undefined | null): Pending<Array<NativePort>>
  /** Connects to a port of a session, or of any of them. Returns a connected socket, which belongs to JavaScript from now on. */
  connect(id: number, sessionId: string | undefined | null, port: number): Pending<number>
  /** Ends everything. */
  destroy(id: number): Pending<undefined>
  /** Makes pending events keep the event loop alive. */
  ref(): void
  /** Lets the event loop end despite pending events. */
  unref(): void
  /** Probes the system. */
  capabilities(id: number): Pending<NativeCapabilities>
  /** Lists the changed paths: these, and everything below them; all by default. */
  workspaceChanges(id: number, paths?: Array<Uint8Array> | undefined | null): Pending<NativeChanges | null>
  /** A patch in git's format. */
  workspaceDiff(
    id: number,
    paths: Array<Uint8Array> | undefined | null,
    maxBytes: number,
  ): Pending<Buffer | null>
  /**
   * Applies changes to the real directory. Its wait for a pause can be abandoned. Has `paths` in the error if there are
   * conflicts.
   */
  workspaceCommit(
    id: number,
    paths: Array<Uint8Array> | undefined | null,
    force: boolean,
    sync: boolean,
  ): Pending<NativeCommit | null>
  /** Restores the real versions of changed paths, and returns their number. Its wait for a pause can be abandoned. */
  workspaceDiscard(id: number, paths?: Array<Uint8Array> | undefined | null): Pending<number | null>
  /** Lists the workspaces whose layers are kept in a directory. Null: those in the state directory, here and below. */
  listWorkspaces(id: number, directory?: string | undefined | null): Pending<Array<NativeNamed>>
  /** Deletes one of them. */
  deleteWorkspace(id: number, directory: string | undefined | null, name: string): Pending<undefined>
  /**
   * Keeps the files and the state of every session. Its wait for a pause can be abandoned. `rejects`: fails if programs
   * use the workspace, here and below.
   */
  checkpoint(id: number, name: string | undefined | null, rejects: boolean): Pending<NativePoint | null>
  /** Lists the checkpoints. */
  checkpoints(id: number): Pending<Array<NativePoint>>
  /** Deletes a checkpoint. */
  deleteCheckpoint(id: number, number: number): Pending<undefined>
  /** Goes on with the files and sessions of a checkpoint; by default of the newest automatic one. */
  rollBack(id: number, number?: number | undefined | null): Pending<NativeRollback>
  /**
   * Lets other sandboxes, which have not been used, begin with the files and sessions of this one. True, unless its wait
   * for a pause was abandoned.
   */
  fork(id: number, forks: Array<NativeSandbox>, rejects: boolean): Pending<boolean | null>
  /** Measures the layers. */
  workspaceUsage(id: number): Pending<NativeUsage>
}

/** A session to create. */
export interface NativeSession {
  /** Its id. */
  sessionId: string
  /** Replaces the sandbox's directory; absolute. */
  cwd?: string
  /** Changes to the sandbox's environment; null unsets. */
  envNames?: Array<string>
  /** Null unsets. */
  envValues?: Array<string | null>
  /** Replaces the sandbox's setting. */
  surviveExit?: boolean
  /** Replaces the sandbox's rules. */
  isolation?: NativeIsolation
}

/** A change that a commit could not apply. */
export interface NativeSkipped {
  /** Relative to the workspace. */
  path: Buffer
  /** Why, in one clause. */
  reason: string
}

/** Resource usage of a process and its tree, or of sessions. */
export interface NativeStats {
  /** Milliseconds. */
  cpuTime: number
  /** Bytes. */
  memory: number
  /** Bytes. */
  memoryPeak: number
  /** Processes. */
  pids: number
  /** Bytes. */
  ioRead: number
  /** Bytes. */
  ioWrite: number
  /** Of sessions: open descriptors of their processes. */
  openFiles?: number
  /** Of sessions: the terminals of their processes. */
  terminals?: number
  /** Of sessions: how many. */
  sessions?: number
}

/** The size and the mode of a terminal. */
export interface NativeTerminal {
  /** Columns. */
  cols: number
  /** Rows. */
  rows: number
  /** Whether typed characters are shown. */
  echo: boolean
  /** Whether it is read by lines. */
  canonical: boolean
}

/** The mechanism that enforces each kind of rule. */
export interface NativeTiers {
  /** For files. */
  filesystem: 'namespace' | 'landlock' | 'none'
  /** For the network. */
  network: 'namespace' | 'landlock+seccomp' | 'seccomp' | 'none'
  /** For processes. */
  processes: 'namespace' | 'landlock' | 'none'
  /** What is missing, and why. */
  notes: Array<string>
}

/** What the layers take. */
export interface NativeUsage {
  /** Allocated bytes. */
  bytes: number
  /** Files and directories. */
  files: number
  /** Layers, with the one that receives the writes. */
  layers: number
}

/** A user: a name, or both numeric ids. */
export interface NativeUser {
  /** A name in the user database. */
  name?: string
  /** User id. */
  uid?: number
  /** Primary group id. */
  gid?: number
}

/** A program that waits for input. */
export interface NativeWaiting {
  /** Whether it waits for other things too. */
  listening: boolean
  /** Whether it could be looked at. */
  sure: boolean
  /** What it reads, and how. */
  how: 'line' | 'secret' | 'keys' | 'pipe'
  /** Its name. */
  program: string
  /** Its process. */
  pid: number
  /** Whether it goes on by itself after some time. */
  timed: boolean
}

/** A line to wait for. */
export interface NativeWantedLine {
  /** A regular expression, in the syntax of the crate regex-lite, or a text. */
  pattern: string
  /** The pattern is a text. */
  isText: boolean
  /** The first line that counts; a negative number counts from the end. Without `cursor`. */
  fromLine?: number
  /** The offset in the log at which to begin, as if a line began there. */
  cursor?: number
}

/** A change that a commit leaves out. */
export interface NativeWithheld {
  /** Its index. */
  index: number
  /** Why, in one clause. */
  reason: string
}

/** A copy-on-write workspace. */
export interface NativeWorkspaceConfig {
  /** The directory: absolute, without links. */
  path: string
  /** Its name, if its layers are kept. */
  id?: string
  /** The directory of the layers, if not the default one; absolute. */
  directory?: string
  /** Whether the layers are in memory. */
  memory: boolean
  /** Maximum bytes of the layers in memory. */
  maxBytes?: number
  /** How many automatic checkpoints to keep. */
  undoSteps: number
}

/** What copy-on-write workspaces can do on this machine. */
export interface NativeWorkspaceOffer {
  /** Whether they work. */
  copyOnWrite: boolean
  /** Whether programs can rename real directories. */
  directoryRename: boolean
  /** Whether large files are copied without their content. */
  reflink: boolean
  /** One sentence for each gap. */
  notes: Array<string>
}
