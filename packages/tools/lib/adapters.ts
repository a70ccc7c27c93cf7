/** The tools in the form of agent SDKs. The SDK's own functions are arguments, so that nothing is imported. */
import { OptionError } from 'nacre'
import type { AnthropicTool, Executable, OpenAITool, Tool, Tools } from './public.js'

export function toAnthropic(tools: Tools): AnthropicTool[] {
  return listOf(tools, 'toAnthropic').map((tool) => ({
    type: 'custom',
    name: tool.name,
    description: tool.description,
    input_schema: tool.inputSchema,
    parse: (input) => input,
    run: (input, context) => textOf(tool, input, context?.signal),
  }))
}

export function toOpenAI(tools: Tools): OpenAITool[] {
  return listOf(tools, 'toOpenAI').map((tool) => ({
    type: 'function',
    function: {
      name: tool.name,
      description: tool.description,
      parameters: tool.inputSchema,
      strict: false,
      // Some models send nothing for no arguments. The runner returns an error to the model.
      parse: (text) => (text.trim() === '' ? {} : JSON.parse(text)),
      function: (input, runner) => textOf(tool, input, runner?.controller.signal),
    },
  }))
}

export function toOpenAIAgents<T>(tools: Tools, sdk: { tool: (options: never) => T }): T[] {
  const { tool } = functionsOf(sdk, 'toOpenAIAgents', { tool: '@openai/agents' })
  return listOf(tools, 'toOpenAIAgents').map((item) => {
    const { name, description, inputSchema: parameters } = item
    const execute = (input: unknown, _context: unknown, details?: { signal?: AbortSignal }) =>
      textOf(item, input, details?.signal)
    return tool({ name, description, parameters, strict: false, execute } as never)
  })
}

export function toLangChain<T>(tools: Tools, sdk: { tool: (run: never, options: never) => T }): T[] {
  const { tool } = functionsOf(sdk, 'toLangChain', { tool: '@langchain/core/tools' })
  return listOf(tools, 'toLangChain').map((item) => {
    const { name, description, inputSchema: schema } = item
    const run = (input: unknown, config?: { signal?: AbortSignal }) => textOf(item, input, config?.signal)
    return tool(run as never, { name, description, schema } as never)
  })
}

export function toAISDK<T>(
  tools: Tools,
  sdk: { tool: (options: never) => T; jsonSchema: (schema: never) => unknown },
): Record<string, Executable<T>> {
  const { tool, jsonSchema } = functionsOf(sdk, 'toAISDK', { tool: 'ai', jsonSchema: 'ai' })
  return byName(listOf(tools, 'toAISDK'), jsonSchema, (_, options) => tool(options as never) as Executable<T>)
}

export function toMastra<T>(
  tools: Tools,
  sdk: { createTool: (options: never) => T; jsonSchema: (schema: never) => unknown },
): Record<string, T> {
  const { createTool, jsonSchema } = functionsOf(sdk, 'toMastra', {
    createTool: '@mastra/core/tools',
    jsonSchema: 'ai',
  })
  return byName(listOf(tools, 'toMastra'), jsonSchema, (id, options) =>
    createTool({ id, ...options } as never),
  )
}

function listOf(tools: Tools | undefined, call: string): readonly Tool[] {
  if (Array.isArray(tools?.list)) return tools.list
  throw new OptionError('INVALID_OPTION', `the first argument of ${call} must be what createTools returns`)
}

/** Checks that the functions of an SDK are there; `modules` has the module of each. */
function functionsOf<T extends object>(sdk: T, call: string, modules: Record<keyof T & string, string>): T {
  const names = Object.keys(modules) as (keyof T & string)[]
  for (const name of names) {
    if (typeof sdk?.[name] === 'function') continue
    const usage = `${call}(tools, { ${names.join(', ')} })`
    throw new OptionError(
      'INVALID_OPTION',
      `the second argument of ${call} must have the function ${name} of '${modules[name]}': ${usage}`,
    )
  }
  return sdk
}

/** The AI SDK and Mastra have the same schemas, and the same arguments of `execute`. */
function byName<T>(
  list: readonly Tool[],
  jsonSchema: (schema: never) => unknown,
  create: (name: string, options: object) => T,
): Record<string, T> {
  const entries = list.map((item) => {
    const { name, description } = item
    const inputSchema = jsonSchema(item.inputSchema as never)
    const execute = (input: unknown, context?: { abortSignal?: AbortSignal }) =>
      textOf(item, input, context?.abortSignal)
    return [name, create(name, { description, inputSchema, execute })] as const
  })
  return Object.fromEntries(entries)
}

async function textOf(tool: Tool, input: unknown, signal: AbortSignal | null | undefined): Promise<string> {
  const { text } = await tool.execute(input, signal == null ? {} : { signal })
  return text
}
