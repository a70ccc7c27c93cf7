/** The adapters, each with the SDK that it is for. */
import Anthropic from '@anthropic-ai/sdk'
import { tool as langChainTool, type StructuredToolInterface } from '@langchain/core/tools'
import {
  type Tools,
  toAISDK,
  toAnthropic,
  toLangChain,
  toMastra,
  toOpenAI,
  toOpenAIAgents,
} from '@nacre/tools'
import { tool as agentsTool, RunContext } from '@openai/agents'
import { jsonSchema, type ToolSet, tool } from 'ai'
import OpenAI, { APIUserAbortError } from 'openai'
import { expect, it } from 'vitest'
import { runs, uniqueSleep, untilRuns } from '../../../__test__/helpers/proc.js'
import { scriptModel } from '../../../__test__/helpers/scripted-model.js'
import { rejectionOf, thrownBy } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { withTools } from './places.js'

const INPUT = { command: 'echo there; exit 3' }
const USER = { role: 'user', content: 'Run it' } as const

function openai(url: string) {
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none' }).chat.completions
}

it('works with the tool runner of Anthropic', () =>
  withTools(async ({ tools }) => {
    const model = await scriptModel('anthropic', [[{ name: 'bash', input: INPUT }], 'done'])
    try {
      const end = await new Anthropic({ baseURL: model.url, apiKey: 'none' }).beta.messages.toolRunner({
        model: 'm',
        max_tokens: 100,
        tools: toAnthropic(tools),
        messages: [{ role: 'user', content: 'Run it' }],
      })
      expect(end.content).toMatchObject([{ text: 'done' }])
      expect(model.offered()).toEqual(tools.list.map(({ name }) => name))
      expect(model.results()).toEqual([expect.stringMatching(/^\[exit 3 .*\nthere$/)])
    } finally {
      await model.close()
    }
  }))

it('works with the tool runner of OpenAI, also when the model sends no JSON', () =>
  withTools(async ({ tools }) => {
    const calls = [INPUT, '', '{"command":', '7'].map((input) => [{ name: 'bash', input }])
    const model = await scriptModel('openai', [...calls, 'done'])
    try {
      const runner = openai(model.url).runTools({ model: 'm', tools: toOpenAI(tools), messages: [USER] })
      expect(await runner.finalContent()).toBe('done')
      expect(model.offered()).toEqual(tools.list.map(({ name }) => name))
      expect(model.results()).toEqual([
        expect.stringMatching(/^\[exit 3 .*\nthere$/),
        expect.stringMatching(/^\[error\] INVALID_ARGUMENT: .*"command"/),
        expect.stringContaining('JSON'),
        expect.stringContaining('must be an object'),
      ])
    } finally {
      await model.close()
    }
  }))

it('works with the tool runner of OpenAI, whose signal cancels', () =>
  withTools(async ({ tools }) => {
    const command = uniqueSleep()
    const model = await scriptModel('openai', [[{ name: 'bash', input: { command } }]])
    try {
      const runner = openai(model.url).runTools({ model: 'm', tools: toOpenAI(tools), messages: [USER] })
      const error = rejectionOf(runner.done())
      await untilRuns(command)
      runner.abort()
      expect(await error).toBeInstanceOf(APIUserAbortError)
      await until(
        () => (runs(command) ? undefined : true),
        () => 'the command still runs',
      )
    } finally {
      await model.close()
    }
  }))

it('has the form of tools of OpenAI for chat completions', () =>
  withTools(async ({ tools }) => {
    const list: OpenAI.Chat.Completions.ChatCompletionTool[] = toOpenAI(tools)
    expect(JSON.parse(JSON.stringify(list[0]))).toEqual({
      type: 'function',
      function: {
        name: 'bash',
        description: tools.list[0]?.description,
        parameters: tools.list[0]?.inputSchema,
        strict: false,
      },
    })
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

const adapt = {
  toAnthropic: (tools: Tools, _?: object) => toAnthropic(tools),
  toOpenAI: (tools: Tools, _?: object) => toOpenAI(tools),
  toOpenAIAgents,
  toLangChain,
  toAISDK,
  toMastra,
} as Record<string, (tools: Tools, sdk?: object) => unknown>

it.each<[string, object | undefined, string]>([
  ['toOpenAIAgents', undefined, "tool of '@openai/agents': toOpenAIAgents(tools, { tool })"],
  ['toLangChain', {}, "tool of '@langchain/core/tools': toLangChain(tools, { tool })"],
  ['toAISDK', undefined, "tool of 'ai': toAISDK(tools, { tool, jsonSchema })"],
  ['toAISDK', { tool }, "jsonSchema of 'ai': toAISDK(tools, { tool, jsonSchema })"],
  ['toMastra', undefined, "createTool of '@mastra/core/tools': toMastra(tools, { createTool, jsonSchema })"],
])('%s refuses the functions %j of an SDK', (name, sdk, missing) =>
  withTools(async ({ tools }) => {
    const message = `the second argument of ${name} must have the function ${missing}`
    expect(thrownBy(() => adapt[name]?.(tools, sdk))).toMatchObject({ name: 'OptionError', message })
  }),
)

it.each(Object.keys(adapt))('%s refuses what createTools has not returned', (name) => {
  const sdk = { tool, jsonSchema, createTool: tool }
  const message = `the first argument of ${name} must be what createTools returns`
  for (const tools of [undefined, {}])
    expect(thrownBy(() => adapt[name]?.(tools as Tools, sdk))).toMatchObject({ name: 'OptionError', message })
})
