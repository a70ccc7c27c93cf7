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
  /** Ends a pending exec: a queued one never runs, a running one is killed. It still ends by its one event. */
  interrupt(id: number, signal: number | null): void
  /** Gives back permits, one per consumed `output` event; the engine sends at most 64 without one. */
  credit(id: number, count: number): void
  /** For `input: 'stream'`: `done` of `writeId` comes when the pipe took the bytes, or the command has ended. */
  write(id: number, writeId: number, data: Uint8Array): void
  closeInput(id: number): void
  setEnv(id: number, sessionId: string, names: string[], values: Array<string | null>): void
  createSession(id: number, session: NativeSession): void
  deleteSession(id: number, sessionId: string): void
  sessions(): string[]
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

export interface NativeEvent {
  id: number
  kind: 'start' | 'output' | 'result' | 'done' | 'error' | 'log'
  /** Of `start`. */
  pid?: number
  /** Of `output`: 1 is stdout, 2 is stderr. */
  stream?: number
  data?: Buffer
  /** Of `result`; of `error` when there is a result so far. */
  result?: NativeResult
  /** Of `error`: a code of SandboxError. Of `log`: the level. */
  code?: string
  message?: string
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
