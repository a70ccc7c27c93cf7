/** An agent with the tool runner of Anthropic's SDK. */
import Anthropic from '@anthropic-ai/sdk'
import { createTools, toAnthropic } from '@nacre/tools'
import { Sandbox } from 'nacre'

const [task = 'Why do the tests fail?', directory = '.'] = process.argv.slice(2)
await using sandbox = new Sandbox({ cwd: directory, isolation: 'workspace' })
await using tools = createTools(sandbox)

const { content } = await new Anthropic().beta.messages.toolRunner({
  model: 'claude-sonnet-5-5',
  max_tokens: 8000,
  max_iterations: 50,
  system: tools.instructions,
  tools: toAnthropic(tools),
  messages: [{ role: 'user', content: task }],
})
for (const part of content) if (part.type === 'text') console.log(part.text)
