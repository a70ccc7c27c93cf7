/** A server with the API of a vendor, whose model follows a script. The vendor's SDK is the client. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A call of a tool. Arguments as text are sent as they are, where the API has text. */
export interface ScriptedCall {
  name: string
  input: object | string
}

/** What the model sends in a turn: calls, or its answer. */
export type Turn = ScriptedCall[] | string

interface Api {
  path: string
  reply(turn: Turn, ids: string[]): object
  /** The names of the tools that the first request offers. Later ones may leave them out. */
  offered(request: never): string[]
  /** The results of calls in a request, by their ids. */
  results(request: never): Array<[id: string, text: string]>
}

const anthropic: Api = {
  path: '/v1/messages',
  reply: (turn, ids) => ({
    ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'scripted', stop_sequence: null },
    stop_reason: typeof turn === 'string' ? 'end_turn' : 'tool_use',
    usage: { input_tokens: 1, output_tokens: 1 },
    content:
      typeof turn === 'string'
        ? [{ type: 'text', text: turn }]
        : turn.map(({ name, input }, index) => ({ type: 'tool_use', id: ids[index], name, input })),
  }),
  offered: ({ tools }: { tools: Array<{ name: string }> }) => tools.map(({ name }) => name),
  results: ({ messages }: { messages: Array<{ content: string | AnthropicPart[] }> }) =>
    messages.flatMap(({ content }) =>
      (typeof content === 'string' ? [] : content).flatMap((part) =>
        part.type === 'tool_result' ? [[part.tool_use_id, textOf(part.content)] as [string, string]] : [],
      ),
    ),
}

interface AnthropicPart {
  type: string
  tool_use_id: string
  content: string | Array<{ text: string }>
}

const openai: Api = {
  path: '/v1/chat/completions',
  reply: (turn, ids) => {
    const isEnd = typeof turn === 'string'
    const calls = isEnd
      ? undefined
      : turn.map(({ name, input }, index) => ({
          id: ids[index],
          type: 'function',
          function: { name, arguments: typeof input === 'string' ? input : JSON.stringify(input) },
        }))
    const message = { role: 'assistant', content: isEnd ? turn : null, refusal: null, tool_calls: calls }
    const choice = { index: 0, message, finish_reason: isEnd ? 'stop' : 'tool_calls', logprobs: null }
    return { id: 'chatcmpl_1', object: 'chat.completion', created: 1, model: 'scripted', choices: [choice] }
  },
  offered: ({ tools }: { tools: Array<{ function: { name: string } }> }) =>
    tools.map((tool) => tool.function.name),
  results: ({ messages }: { messages: Array<{ role: string; tool_call_id: string; content: string }> }) =>
    messages.flatMap(({ role, tool_call_id, content }) =>
      role === 'tool' ? [[tool_call_id, content] as [string, string]] : [],
    ),
}

const APIS = { anthropic, openai }

function textOf(content: AnthropicPart['content']): string {
  return typeof content === 'string' ? content : content.map(({ text }) => text).join('')
}

export interface ScriptedModel {
  /** The base of the API, without `/v1`. */
  url: string
  /** The names of the tools that the first request offered. */
  offered(): string[]
  /** The number of requests. */
  turns(): number
  /** The results that the SDK sent back, in the order of the calls. Throws unless each call has one. */
  results(): string[]
  close(): Promise<void>
}

/** Serves the turns of a script, one for each request. */
export async function scriptModel(vendor: keyof typeof APIS, script: Turn[]): Promise<ScriptedModel> {
  const api = APIS[vendor]
  let turns = 0
  let offered: string[] = []
  const ids: string[] = []
  // A request has all messages, or only the new ones.
  const results = new Map<string, string>()
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request) text += chunk
    const turn = script[turns]
    if (request.url !== api.path || turn === undefined) {
      response.writeHead(404).end()
      return
    }
    const body = JSON.parse(text) as never
    if (turns++ === 0) offered = api.offered(body)
    for (const [id, result] of api.results(body)) results.set(id, result)
    const added = typeof turn === 'string' ? [] : turn.map((_, index) => `call_${ids.length + index}`)
    ids.push(...added)
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(api.reply(turn, added)))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    offered: () => offered,
    turns: () => turns,
    results: () =>
      ids.map((id) => {
        const result = results.get(id)
        if (result === undefined) throw new Error(`no result of ${id}: ${JSON.stringify([...results])}`)
        return result
      }),
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
