/** `createTools`. */
import type { AnySandbox } from 'nacre'
import { OptionError, SandboxError } from 'nacre'
import { type Definition, definitions, INSTRUCTIONS, type Inputs } from './definitions.js'
import { handlers } from './handlers.js'
import { planTools } from './options.js'
import type {
  Tools as PublicTools,
  RunInfo,
  Tool,
  ToolContext,
  ToolName,
  ToolOptions,
  ToolReply,
} from './public.js'
import { failure } from './reply.js'
import { read, ToolError } from './schema.js'
import { Host, Scope } from './scope.js'

export function createTools(sandbox: AnySandbox, options?: ToolOptions): PublicTools {
  return new Tools(sandbox, options)
}

class Tools implements PublicTools {
  readonly list: readonly Tool[]
  readonly instructions = INSTRUCTIONS
  readonly #host: Host
  /** Calls that have not replied yet. */
  readonly #pending = new Set<Promise<ToolReply>>()
  #closing: Promise<void> | undefined

  constructor(sandbox: AnySandbox, options: ToolOptions | undefined) {
    const plan = planTools(options)
    if (typeof (sandbox as Partial<AnySandbox> | undefined)?.createSession !== 'function')
      throw new OptionError(
        'INVALID_OPTION',
        'the first argument of createTools must be a Sandbox or a SandboxClient',
      )
    this.#host = new Host(sandbox, plan)
    const all = definitions({
      timeout: plan.timeout / 1000,
      yieldAfter: plan.yieldAfter / 1000,
      maxTokens: plan.maxTokens,
      requireSession: plan.requireSession,
      allowCommit: plan.allowCommit,
    })
    this.list = plan.tools.map((name) => this.#tool(name, all[name]))
  }

  get(name: string): Tool | undefined {
    return this.list.find((tool) => tool.name === name)
  }

  async call(name: string, input: unknown, context?: ToolContext): Promise<ToolReply> {
    const tool = this.get(name)
    if (tool !== undefined) return tool.execute(input, context)
    const names = this.list.map((known) => known.name).join(', ')
    return failure(this.#host.style, 'INVALID_ARGUMENT', `There is no tool "${name}". Tools: ${names}.`)
  }

  runs(): RunInfo[] {
    return this.#host.scopes.flatMap(({ runs }) =>
      [...runs.values()].map(({ id, command, sessionName, age, isOver }) => ({
        id,
        command,
        session: sessionName,
        duration: age,
        isRunning: !isOver,
      })),
    )
  }

  async close(): Promise<void> {
    this.#closing ??= (async () => {
      await this.#host.close()
      await Promise.all(this.#pending)
      // Ends what these calls have started meanwhile.
      await this.#host.close()
    })()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #tool(name: ToolName, { inputSchema, ...definition }: Definition): Tool {
    const execute = (input: unknown, context: ToolContext = {}) => {
      const call = this.#execute(name, inputSchema, input, context)
      this.#pending.add(call)
      const done = () => this.#pending.delete(call)
      call.then(done, done)
      return call
    }
    return { name, ...definition, inputSchema, execute }
  }

  async #execute(
    name: ToolName,
    schema: Tool['inputSchema'],
    given: unknown,
    context: ToolContext,
  ): Promise<ToolReply> {
    const host = this.#host
    try {
      if (host.isClosed) throw new ToolError('The tools are closed.', 'TOOLS_CLOSED')
      const input = read(schema, given) as Inputs[ToolName] & {
        session?: string
        open?: string
        end?: string
      }
      const scope =
        name === 'sessions' && input.open !== undefined
          ? new Scope()
          : host.scopeOf(input.session ?? input.end)
      return await handlers[name]({ host, scope, input: input as never, context })
    } catch (error) {
      if (error instanceof ToolError || error instanceof OptionError || error instanceof SandboxError)
        return failure(host.style, error.code, error.message)
      throw error
    }
  }
}
