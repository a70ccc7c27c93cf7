/** The adapters, each with the SDK that it is for. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Anthropic from '@anthropic-ai/sdk'
import { tool as langChainTool, type StructuredToolInterface } from '@langchain/core/tools'
import { toAISDK, toAnthropic, toLangChain, toOpenAI, toOpenAIAgents } from '@nacre/tools'
import { tool as agentsTool, RunContext } from '@openai/agents'
import { jsonSchema, type ToolSet, tool } from 'ai'
import type OpenAI from 'openai'
import { expect, it } from 'vitest'
import { withTools } from './places.js'

const INPUT = { command: 'echo there; exit 3' }

/** A server that gives each request the next reply, and keeps what it was asked. */
async function scripted(
  replies: object[],
  test: (url: string, requests: Record<string, never>[]) => Promise<void>,
) {
  const requests: Record<string, never>[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    requests.push(JSON.parse(body))
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(replies[requests.length - 1]))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await test(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

it('works with the tool runner of Anthropic', () =>
  withTools(async ({ tools }) => {
    const message = (content: object[], stop_reason: string) => ({
      ...{
        id: 'm',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content,
        stop_reason,
        stop_sequence: null,
      },
      usage: { input_tokens: 1, output_tokens: 1 },
    })
    const replies = [
      message([{ type: 'tool_use', id: 't', name: 'bash', input: INPUT }], 'tool_use'),
      message([{ type: 'text', text: 'done' }], 'end_turn'),
    ]
    await scripted(replies, async (baseURL, requests) => {
      const end = await new Anthropic({ baseURL, apiKey: 'none' }).beta.messages.toolRunner({
        model: 'm',
        max_tokens: 100,
        tools: toAnthropic(tools),
        messages: [{ role: 'user', content: 'Run it' }],
      })
      expect(end.content).toMatchObject([{ text: 'done' }])
      expect(requests[0]).toMatchObject({ tools: tools.list.map(({ name }) => ({ name })) })
      expect(JSON.stringify(requests[1])).toMatch(/"tool_result".*\[exit 3 .*\\nthere"/)
    })
  }))

it('has the form of tools of OpenAI', () =>
  withTools(async ({ tools }) => {
    const list: OpenAI.Chat.Completions.ChatCompletionTool[] = toOpenAI(tools)
    expect(list[0]).toMatchObject({ type: 'function', function: { name: 'bash', strict: false } })
  }))

it('works with OpenAI Agents', () =>
  withTools(async ({ tools }) => {
    const [bash] = toOpenAIAgents(tools, { tool: agentsTool })
    expect(await bash?.invoke(new RunContext(), JSON.stringify(INPUT))).toMatch(/^\[exit 3 .*\nthere$/)
  }))

it('works with the AI SDK, whose signal cancels', () =>
  withTools(async ({ tools }) => {
    const set: ToolSet = toAISDK(tools, { tool, jsonSchema })
    const options = { toolCallId: 't', messages: [], context: {} }
    const run = (input: object, signals: object = {}) =>
      set.bash?.execute?.(input, { ...options, ...signals })
    expect(await run(INPUT)).toMatch(/^\[exit 3 .*\nthere$/)
    expect(await run({ command: 'sleep 600' }, { abortSignal: AbortSignal.timeout(100) })).toMatch(
      /^\[killed, its call was cancelled /,
    )
  }))

it('works with LangChain, whose signal cancels', () =>
  withTools(async ({ tools }) => {
    const list: StructuredToolInterface[] = toLangChain(tools, { tool: langChainTool })
    expect(await list[0]?.invoke(INPUT)).toMatch(/^\[exit 3 .*\nthere$/)
    const signal = AbortSignal.timeout(100)
    await expect(list[0]?.invoke({ command: 'sleep 600' }, { signal })).rejects.toThrow()
  }))
