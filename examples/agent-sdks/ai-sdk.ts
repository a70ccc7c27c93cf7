/** An agent with the AI SDK, here with a model of Anthropic. Any other provider works in its place. */
import { anthropic } from '@ai-sdk/anthropic'
import { createTools, toAISDK } from '@nacre/tools'
import { generateText, jsonSchema, stepCountIs, tool } from 'ai'
import { Sandbox } from 'nacre'

const [task = 'Why do the tests fail?', directory = '.'] = process.argv.slice(2)
await using sandbox = new Sandbox({ cwd: directory, isolation: 'workspace' })
await using tools = createTools(sandbox)

const { text } = await generateText({
  model: anthropic('claude-sonnet-5-5'),
  system: tools.instructions,
  tools: toAISDK(tools, { tool, jsonSchema }),
  stopWhen: stepCountIs(50),
  prompt: task,
})
console.log(text)
