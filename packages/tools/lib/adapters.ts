/** The tools in the form of agent SDKs. The SDK's own functions are arguments, so that nothing is imported. */
import type { AnthropicTool, OpenAITool, Tool, Tools } from './public.js'

export function toAnthropic({ list }: Tools): AnthropicTool[] {
  return list.map((tool) => ({
    type: 'custom',
    name: tool.name,
    description: tool.description,
    input_schema: tool.inputSchema,
    parse: (input) => input,
    run: (input, context) => textOf(tool, input, context?.signal),
  }))
}

export function toOpenAI({ list }: Tools): OpenAITool[] {
  return list.map((tool) => ({
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

export function toOpenAIAgents<T>({ list }: Tools, { tool }: { tool: (options: never) => T }): T[] {
  return list.map((item) => {
    const { name, description, inputSchema: parameters } = item
    const execute = (input: unknown, _context: unknown, details?: { signal?: AbortSignal }) =>
      textOf(item, input, details?.signal)
    return tool({ name, description, parameters, strict: false, execute } as never)
  })
}

export function toLangChain<T>({ list }: Tools, { tool }: { tool: (run: never, options: never) => T }): T[] {
  return list.map((item) => {
    const { name, description, inputSchema: schema } = item
    const run = (input: unknown, config?: { signal?: AbortSignal }) => textOf(item, input, config?.signal)
    return tool(run as never, { name, description, schema } as never)
  })
}

export function toAISDK<T>(
  { list }: Tools,
  { tool, jsonSchema }: { tool: (options: never) => T; jsonSchema: (schema: never) => unknown },
): Record<string, T> {
  return byName(list, jsonSchema, (_, options) => tool(options as never))
}

export function toMastra<T>(
  { list }: Tools,
  { createTool, jsonSchema }: { createTool: (options: never) => T; jsonSchema: (schema: never) => unknown },
): Record<string, T> {
  return byName(list, jsonSchema, (id, options) => createTool({ id, ...options } as never))
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
