/**
 * What `@cloudflare/sandbox` 0.12.10 declares, as far as nacre has it too. Copied, because the package needs the types of
 * Cloudflare Workers.
 */
interface BaseOptions {
  timeout?: number
  env?: Record<string, string | undefined>
  cwd?: string
  encoding?: string
}

export interface ExecOptions extends BaseOptions {
  stream?: boolean
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  onComplete?: (result: ExecResult) => void
  onError?: (error: Error) => void
  signal?: AbortSignal
  origin?: 'user' | 'internal'
}

export interface ProcessOptions extends BaseOptions {
  sessionId?: string
  processId?: string
  autoCleanup?: boolean
  onExit?: (code: number | null) => void
  onOutput?: (stream: 'stdout' | 'stderr', data: string) => void
  onStart?: (process: Process) => void
  onError?: (error: Error) => void
}

export interface ExecResult {
  success: boolean
  exitCode: number
  stdout: string
  stderr: string
  command: string
  duration: number
  timestamp: string
  sessionId?: string
}

export type Status = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error'

export interface LogMatch {
  line: string
  match?: RegExpMatchArray
}

export interface PortOptions {
  mode?: 'http' | 'tcp'
  path?: string
  status?: number | { min: number; max: number }
  timeout?: number
  interval?: number
}

export interface Process {
  readonly id: string
  readonly pid?: number
  readonly command: string
  readonly status: Status
  readonly startTime: Date
  readonly endTime?: Date
  readonly exitCode?: number
  readonly sessionId?: string
  kill(signal?: string): Promise<void>
  getStatus(): Promise<Status>
  getLogs(): Promise<{ stdout: string; stderr: string }>
  waitForLog(pattern: string | RegExp, timeout?: number): Promise<LogMatch>
  waitForPort(port: number, options?: PortOptions): Promise<void>
  waitForExit(timeout?: number): Promise<{ exitCode: number }>
}

interface Common {
  exec(command: string, options?: ExecOptions): Promise<ExecResult>
  startProcess(command: string, options?: ProcessOptions): Promise<Process>
  listProcesses(): Promise<Process[]>
  getProcess(id: string): Promise<Process | null>
  killProcess(id: string, signal?: string): Promise<void>
  killAllProcesses(): Promise<number>
  cleanupCompletedProcesses(): Promise<number>
  getProcessLogs(id: string): Promise<{ stdout: string; stderr: string; processId: string }>
  setEnvVars(envVars: Record<string, string | undefined>): Promise<void>
}

export interface Session extends Common {
  readonly id: string
}

export interface SessionOptions {
  id?: string
  env?: Record<string, string | undefined>
  cwd?: string
}

/** What `getSandbox` returns. */
export interface Sandbox extends Common {
  createSession(options?: SessionOptions): Promise<Session>
  deleteSession(sessionId: string): Promise<{ success: boolean; sessionId: string; timestamp: string }>
  destroy(): Promise<void>
}

export declare const Sandbox: new () => Sandbox
