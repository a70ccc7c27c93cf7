/** `createTools`. */
import type { AnySandbox } from 'nacre'
import { OptionError, SandboxError } from 'nacre'
import { clock, hiddenOf, inTime, redaction } from 'nacre/internal'
import { type Definition, definitions, INSTRUCTIONS, type Inputs } from './definitions.js'
import { handlers } from './handlers.js'
import { type Options, planTools } from './options.js'
import { type Opening, Place } from './place.js'
import type {
  OpenSandbox,
  Tools as PublicTools,
  RunInfo,
  Tool,
  ToolContext,
  ToolName,
  ToolOptions,
  ToolReply,
} from './public.js'
import { failure, formatTime, reply, type Style } from './reply.js'
import { read, ToolError } from './schema.js'
import { Host, lostHandle, Scope } from './scope.js'

export function createTools(sandbox: AnySandbox | OpenSandbox, options?: ToolOptions): PublicTools {
  return new Tools(sandbox, options)
}

/** Milliseconds that a tool may be late, since it has timers of its own. */
const LATENESS = 1000

class Tools implements PublicTools {
  readonly list: readonly Tool[]
  readonly instructions = INSTRUCTIONS
  readonly #options: Options
  readonly #style: Style
  readonly #place: Place
  /** Calls that have not replied yet. */
  readonly #pending = new Set<Promise<ToolReply>>()
  #closing: Promise<void> | undefined

  constructor(sandbox: AnySandbox | OpenSandbox, options: ToolOptions | undefined) {
    const plan = planTools(options)
    const isSandbox = typeof (sandbox as Partial<AnySandbox> | undefined)?.createSession === 'function'
    if (!isSandbox && typeof sandbox !== 'function')
      throw new OptionError(
        'INVALID_OPTION',
        'the first argument of createTools must be a Sandbox, a SandboxClient or a function that opens one',
      )
    const { countTokens, redact, writeHint, askHint } = plan
    this.#options = plan
    const redactor = new redaction.Redactor(redact)
    this.#style = { countTokens, redactor, writeHint, askHint }
    let last: Host | undefined
    this.#place = new Place(sandbox, (opened) => {
      redactor.follow(hiddenOf(opened))
      last = new Host(opened, plan, this.#style, last?.highest)
      return last
    })
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
    return failure(this.#style, 'INVALID_ARGUMENT', `There is no tool "${name}". Tools: ${names}.`)
  }

  runs(): RunInfo[] {
    return this.#place.scopes.flatMap(({ runs }) =>
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
      await this.#place.close()
      await Promise.allSettled(this.#pending)
      // Ends what these calls have started meanwhile.
      await this.#place.close()
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
    const style = this.#style
    const until = clock.performance.now() + this.#options.maxWait
    let host: Host | undefined
    try {
      if (this.#closing !== undefined) throw new ToolError('The tools are closed.', 'TOOLS_CLOSED')
      const input = read(schema, given) as Inputs[ToolName] & {
        session?: string
        open?: string
        end?: string
      }
      // That would open a sandbox only to find that it has no such session.
      if (input.end !== undefined && !this.#place.isOpen) throw lostHandle()
      const place = await this.#place.host(until, context)
      if (!(place instanceof Host)) return startReply(style, place)
      host = place
      const scope =
        name === 'sessions' && input.open !== undefined
          ? new Scope(0)
          : host.scopeOf(input.session ?? input.end)
      const reply = handlers[name]({ host, scope, input: input as never, context, until })
      const answer = await inTime(until - clock.performance.now() + LATENESS, reply)
      if (answer === undefined)
        throw new ToolError('The sandbox does not answer. Call again later.', 'SANDBOX_SILENT')
      return answer.value
    } catch (error) {
      if (this.#closing !== undefined) return failure(style, 'TOOLS_CLOSED', 'The tools are closed.')
      if (error instanceof ToolError || error instanceof OptionError || error instanceof SandboxError)
        return failure(style, error.code, this.#explain(error, host))
      throw error
    }
  }

  #explain(error: Error, host: Host | undefined): string {
    if (host === undefined || !this.#place.leave(host, error)) return error.message
    return `${error.message}. The next call opens a new one, without the sessions of this one.`
  }
}

function startReply(style: Style, { startedAt, step }: Opening): ToolReply {
  const time = formatTime(clock.performance.now() - startedAt)
  const next = ['nothing has run yet: call again']
  return reply(style, { header: ['starts', time, step], next, data: { status: 'starting' } })
}
