/** The public types of `@nacre/tools`. */
import type { Sandbox, SandboxClient } from 'nacre'

export type ToolName = 'bash' | 'wait' | 'write' | 'output' | 'kill' | 'service' | 'sessions' | 'jobs'

export interface ToolOptions {
  /** The tools to offer. Default: all. */
  tools?: readonly ToolName[]
  /** Milliseconds after which a command that names no timeout is killed. Default: 600,000. */
  timeout?: number
  /** Milliseconds after which `bash` replies with the output so far. Default: 15,000. */
  yieldAfter?: number
  /** Milliseconds that no reply exceeds, whatever a model asks for. Default: 50,000, below the 60 s that MCP clients wait. */
  maxWait?: number
  /** Tokens of a reply that names no budget, at most 9,000. Default: 4,000. */
  maxTokens?: number
  /** Runs at the same time. Default: 64. */
  maxRuns?: number
  /** Ended runs whose output can still be read. Default: 200. */
  keepRuns?: number
  /** What replies show as `[redacted]`. Default: nothing. */
  redact?: readonly (string | RegExp)[]
  /** Counts tokens, for example `countTokens` of gpt-tokenizer. Default: an estimate for o200k. */
  countTokens?: (text: string) => number
  /** Requires the id of a session in every call, for servers with several callers. Default: false. */
  requireSession?: boolean
}

export interface ToolContext {
  /** Kills the run of `bash`; ends the waiting of other tools. */
  signal?: AbortSignal
  /** Called at most once a second while a tool waits. */
  onProgress?: (progress: ToolProgress) => void
}

export interface ToolProgress {
  /** Since the run began. */
  seconds: number
  /** The last line of its output, at most 120 characters. */
  message: string
}

export interface ToolReply {
  /** What the model reads. */
  text: string
  /** Whether nacre could not do what was asked. A command that fails is no error. */
  isError: boolean
  /** The same for programs. A model does not need it. */
  data: ToolData
}

export interface ToolData {
  /** The id of the run. */
  id?: string
  state?: 'running' | 'reading' | 'listening' | 'unknown' | 'ended'
  exitCode?: number | null
  signal?: string | null
  /** Why it ended. */
  reason?: string | null
  cwd?: string
  /** Bytes of output so far. */
  bytes?: number
  /** Characters of output that the reply leaves out. */
  left?: number
  /** The code of an error. */
  code?: string
}

export interface Tool {
  readonly name: ToolName
  readonly title: string
  readonly description: string
  /** JSON Schema. */
  readonly inputSchema: ToolSchema
  readonly annotations: ToolAnnotations
  /** Checks the input itself. Never rejects for what a model can do wrong. */
  execute(input: unknown, context?: ToolContext): Promise<ToolReply>
}

export interface ToolSchema {
  type: 'object'
  properties: Record<string, object>
  required: string[]
  additionalProperties: false
}

/** Hints as MCP has them. */
export interface ToolAnnotations {
  readOnlyHint: boolean
  destructiveHint?: boolean
  openWorldHint: boolean
}

export interface Tools extends AsyncDisposable {
  readonly list: readonly Tool[]
  /** For the system prompt. */
  readonly instructions: string
  get(name: string): Tool | undefined
  call(name: string, input: unknown, context?: ToolContext): Promise<ToolReply>
  /** Kills all runs. Does not destroy the sandbox. */
  close(): Promise<void>
}

export type AnySandbox = Sandbox | SandboxClient
