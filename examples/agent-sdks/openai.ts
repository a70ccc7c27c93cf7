/** An agent with the tool runner of OpenAI's SDK. */
import { createTools, toOpenAI } from '@nacre/tools'
import { Sandbox } from 'nacre'
import OpenAI from 'openai'

const [task = 'Why do the tests fail?', directory = '.'] = process.argv.slice(2)
await using sandbox = new Sandbox({ cwd: directory, isolation: 'workspace' })
await using tools = createTools(sandbox)

const runner = new OpenAI().chat.completions.runTools(
  {
    model: 'gpt-6.1-sol',
    tools: toOpenAI(tools),
    messages: [
      { role: 'system', content: tools.instructions },
      { role: 'user', content: task },
    ],
  },
  { maxChatCompletions: 50 },
)
console.log(await runner.finalContent())
