/**
 * Compiled, never run: members that `@cloudflare/sandbox` has too fit its types. Its declarations are copied from version
 * 0.12.10, because the package itself needs the types of Cloudflare Workers.
 */
import type {
  ExecOptions,
  ExecResult,
  LogMatch,
  Process,
  ProcessOptions,
  ProcessStatus,
  WaitForPortOptions,
} from 'nacre'

interface TheirBaseOptions {
  timeout?: number
  env?: Record<string, string | undefined>
  cwd?: string
  encoding?: string
}

interface TheirExecOptions extends TheirBaseOptions {
  stream?: boolean
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  onComplete?: (result: TheirExecResult) => void
  onError?: (error: Error) => void
  signal?: AbortSignal
  origin?: 'user' | 'internal'
}

interface TheirProcessOptions extends TheirBaseOptions {
  sessionId?: string
  processId?: string
  autoCleanup?: boolean
  onExit?: (code: number | null) => void
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  onStart?: (process: TheirProcess) => void
  onError?: (error: Error) => void
}

interface TheirExecResult {
  success: boolean
  exitCode: number
  stdout: string
  stderr: string
  command: string
  duration: number
  timestamp: string
  sessionId?: string
}

type TheirStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error'

interface TheirLogMatch {
  line: string
  match?: RegExpMatchArray
}

interface TheirPortOptions {
  mode?: 'http' | 'tcp'
  path?: string
  status?: number | { min: number; max: number }
  timeout?: number
  interval?: number
}

interface TheirProcess {
  readonly id: string
  readonly pid?: number
  readonly command: string
  readonly status: TheirStatus
  readonly startTime: Date
  readonly endTime?: Date
  readonly exitCode?: number
  readonly sessionId?: string
  kill(signal?: string): Promise<void>
  getStatus(): Promise<TheirStatus>
  getLogs(): Promise<{ stdout: string; stderr: string }>
  waitForLog(pattern: string | RegExp, timeout?: number): Promise<TheirLogMatch>
  waitForPort(port: number, options?: TheirPortOptions): Promise<void>
  waitForExit(timeout?: number): Promise<{ exitCode: number }>
}

/** Compiles only when both types are the same. */
function same<A, B>(..._proof: [A] extends [B] ? ([B] extends [A] ? [] : [never]) : [never]): void {}

/** The members that both have, of which the first does not fit the second. */
type Unlike<From, To> = {
  [K in keyof From & keyof To]-?: Pick<From, K> extends Pick<To, K> ? never : K
}[keyof From & keyof To]

export function processes() {
  // A signal leaves no exit code, and kill says whether it has killed something.
  same<Unlike<Process, TheirProcess>, 'exitCode' | 'waitForExit' | 'kill'>()
  same<Exclude<keyof TheirProcess, keyof Process>, never>()
  same<ProcessStatus, TheirStatus>()
  same<Unlike<LogMatch, TheirLogMatch>, never>()
}

export function results() {
  same<Unlike<ExecResult, TheirExecResult>, 'exitCode'>()
  same<Exclude<keyof TheirExecResult, keyof ExecResult>, never>()
}

/** Options go the other way: those for the other SDK are also options for nacre. */
export function options() {
  // Their callback has no null as exit code, and errors of the caller's own functions can be any value.
  same<Unlike<TheirExecOptions, ExecOptions>, 'onComplete' | 'onError' | 'encoding'>()
  same<Unlike<TheirProcessOptions, ProcessOptions>, 'onStart' | 'onError'>()
  // Callbacks are called without a switch, and output of processes is text or bytes where it is read.
  same<Exclude<keyof TheirExecOptions, keyof ExecOptions>, 'stream' | 'origin'>()
  same<Exclude<keyof TheirProcessOptions, keyof ProcessOptions>, 'encoding'>()
  same<Unlike<TheirPortOptions, WaitForPortOptions>, never>()
  // Only these take or give more than theirs.
  same<Unlike<ExecOptions, TheirExecOptions>, 'cwd' | 'onComplete'>()
}
