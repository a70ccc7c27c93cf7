/**
 * Tools with which a language model runs shell commands.
 *
 * @module packages/tools
 */
import type { AnySandbox, OptionError } from 'nacre'

/** The names of the tools. */
export type ToolName =
  | 'bash'
  | 'wait'
  | 'write'
  | 'output'
  | 'kill'
  | 'service'
  | 'sessions'
  | 'jobs'
  | 'workspace'

/** Options of {@link createTools}. */
export interface ToolOptions {
  /**
   * The tools to offer, at least one. `workspace` needs a sandbox with a copy-on-write workspace, and excludes `requireSession`.
   * Default: all but `workspace`.
   */
  tools?: readonly ToolName[]
  /**
   * Milliseconds after which a command is killed with everything it started, unless the call names another time; 1 to
   * 2147483647. Default: 600000.
   */
  timeout?: number
  /**
   * Milliseconds after which `bash` replies with the output so far, unless the call names another time; 0 to 2147483647.
   * Default: 15000.
   */
  yieldAfter?: number
  /**
   * Milliseconds within which every reply comes, whatever the model asks for; 1 to 2147483647. The clients of MCP wait for 60 s.
   * Default: 50000.
   */
  maxWait?: number
  /** Tokens of a reply, unless the call names another number; 100 to 9000. Default: 4000. */
  maxTokens?: number
  /** Maximum number of commands, and of services, that run at the same time; 1 to 10000. Default: 64. */
  maxRuns?: number
  /** Number of ended commands whose output can still be read, 0 to 10000. Default: 200. */
  keepRuns?: number
  /** Maximum number of open sessions, 1 to 10000. Default: 32. */
  maxSessions?: number
  /** Texts of at least 4 characters, and expressions, that replies show as `[redacted]`. Default: none. */
  redact?: readonly (string | RegExp)[]
  /** Counts the tokens of a text, for example `countTokens` of gpt-tokenizer. Default: an estimate for the encoding o200k. */
  countTokens?: (text: string) => number
  /**
   * Whether every call needs the id of a session, which the tool `sessions` returns. For servers with several callers: each
   * sees only its own runs. Default: false.
   */
  requireSession?: boolean
  /**
   * Whether `close` leaves the sessions that the tools have opened to the sandbox. Those of a sandbox with `keep` are there again in
   * the next one: the model goes on with them by their names. Default: false.
   */
  keepSessions?: boolean
  /** Whether the tool `workspace` can also commit changes to the real directory. Default: false. */
  allowCommit?: boolean
  /** A note for a command that failed because the rules refused to write a file: how to allow more. Default: none. */
  writeHint?: string
  /**
   * A note for a command that waits because a question about a host is open: who can answer it. See `network.ask` of the
   * sandbox's isolation. Default: none.
   */
  askHint?: string
}

/** Opens the sandbox of tools. `onProgress` receives what takes long; `signal` ends it. */
export type OpenSandbox = (context: {
  signal: AbortSignal
  onProgress: (step: string) => void
}) => Promise<AnySandbox>

/** What a program that runs the tools passes along with a call. */
export interface ToolContext {
  /** Kills the run of `bash`; ends the waiting of other tools. */
  signal?: AbortSignal
  /** Called at most once a second while a tool waits. */
  onProgress?: (progress: ToolProgress) => void
}

/** How a command gets on. */
export interface ToolProgress {
  /** Since the run began. */
  seconds: number
  /** The last line of its output, at most 120 characters. */
  message: string
}

/** The result of a call. */
export interface ToolReply {
  /** What the model reads. */
  text: string
  /** Whether nacre could not do what was asked. A command that fails is no error. */
  isError: boolean
  /** The same for programs. A model does not need it. */
  data: ToolData
}

/** Facts about a reply. Each is absent where it does not apply. */
export interface ToolData {
  /** The id of the run. */
  id?: string
  /** Of the run; 'starting' while the sandbox opens: then nothing has run. */
  status?: 'starting' | 'running' | 'reading' | 'listening' | 'unknown' | 'ended'
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
  /** The id of a session that was opened. */
  session?: string
  /** The id of a job. */
  job?: string
  /** The id of a checkpoint that was made. */
  checkpoint?: string
}

/** A tool as plain data, with its function. */
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

/** JSON Schema of the arguments. A type, since SDKs do not accept interfaces here. */
export type ToolSchema = {
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

/** All tools of a sandbox. */
export interface Tools extends AsyncDisposable {
  readonly list: readonly Tool[]
  /** A paragraph for the system prompt. */
  readonly instructions: string
  get(name: string): Tool | undefined
  call(name: string, input: unknown, context?: ToolContext): Promise<ToolReply>
  /** What runs, and what has ended and can still be read. */
  runs(): RunInfo[]
  /** Kills all runs and services, and ends the sessions that the tools have opened. Does not destroy the sandbox. Idempotent. */
  close(): Promise<void>
}

/** A command of `bash`. */
export interface RunInfo {
  id: string
  command: string
  /** The session's name. */
  session: string
  /** Milliseconds since its start, or until its end. */
  duration: number
  isRunning: boolean
}

/**
 * Creates tools with which a model runs commands in a sandbox.
 *
 * Does no I/O: the first call opens a session. With a function, the first call opens the sandbox too, and `close` ends it. A reply
 * comes within `maxWait`: it then says that the sandbox starts. When the sandbox is lost, the next call opens another one. Throws
 * {@link OptionError}.
 */
export declare function createTools(sandbox: AnySandbox | OpenSandbox, options?: ToolOptions): Tools

/** A tool for the tool runner of the Anthropic SDK. */
export interface AnthropicTool {
  type: 'custom'
  name: string
  description: string
  input_schema: ToolSchema
  parse(input: unknown): unknown
  run(input: unknown, context?: { signal?: AbortSignal | null }): Promise<string>
}

/** The tools for the tool runner of the Anthropic SDK. */
export declare function toAnthropic(tools: Tools): AnthropicTool[]

/** A tool for chat completions of the OpenAI SDK. */
export interface OpenAITool {
  type: 'function'
  function: OpenAIFunction
}

/** The function of an {@link OpenAITool}. */
export interface OpenAIFunction {
  name: string
  description: string
  parameters: Record<string, unknown>
  /** False, since `true` would require every argument. */
  strict: boolean
  /** Parses the arguments of a call. Throws a SyntaxError for what is not JSON. */
  parse(text: string): object
  /** Runs a call. The runner's signal cancels it. */
  function(input: unknown, runner?: { controller: AbortController }): Promise<string>
}

/** The tools for chat completions of the OpenAI SDK, and for its tool runner, `runTools`. */
export declare function toOpenAI(tools: Tools): OpenAITool[]

/** The tools for OpenAI Agents. Takes `tool` of the OpenAI Agents SDK. */
export declare function toOpenAIAgents<T>(tools: Tools, sdk: { tool: (options: never) => T }): T[]

/** A tool of the AI SDK that runs its calls. The type of `tool` alone leaves open whether it has `execute`. */
export type Executable<T> = T & { execute: (input: unknown, options: unknown) => Promise<string> }

/** The tools for the AI SDK, by name. Takes `tool` and `jsonSchema` of the AI SDK. */
export declare function toAISDK<T>(
  tools: Tools,
  sdk: { tool: (options: never) => T; jsonSchema: (schema: never) => unknown },
): Record<string, Executable<T>>

/** The tools for LangChain. Takes `tool` of LangChain. */
export declare function toLangChain<T>(tools: Tools, sdk: { tool: (run: never, options: never) => T }): T[]

/** The tools for Mastra 1.0 or newer, by name. Takes `createTool` of Mastra, and `jsonSchema` of the AI SDK. */
export declare function toMastra<T>(
  tools: Tools,
  sdk: { createTool: (options: never) => T; jsonSchema: (schema: never) => unknown },
): Record<string, T>
