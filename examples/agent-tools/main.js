/** The loop: asks the model, runs the tool that it calls and returns the result to it, until the model answers in text. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { askModel } from './model.js'
import { createTools } from './tools.js'

/** Keeps a looping model from running up a bill. */
const MAX_TURNS = 20

const workspace = process.argv[2] ?? (await mkdtemp(path.join(os.tmpdir(), 'agent-')))
const sandbox = new Sandbox({ cwd: workspace, isolation: 'workspace' })
try {
  const tools = createTools(sandbox, path.join(workspace, '.logs'))
  const messages = [{ role: 'user', content: 'Write a small web server, start it and check its log.' }]
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const reply = await askModel(messages, tools)
    messages.push(reply)
    if (reply.call === undefined) {
      console.log(`answer: ${reply.content}`)
      break
    }
    const { tool, input } = reply.call
    console.log(`> ${tool} ${JSON.stringify(input)}`)
    const content = await callTool(tools, tool, input)
    console.log(content.trimEnd())
    messages.push({ role: 'tool', content })
  }
} finally {
  await sandbox.destroy() // kills the servers that the model left running
  if (process.argv[2] === undefined) await rm(workspace, { recursive: true })
}

/** Runs a tool. A failure is also a result: the model reads it and tries something else. */
async function callTool(tools, name, input) {
  const tool = tools[name]
  if (tool === undefined) return `error: no tool '${name}'; the tools are ${Object.keys(tools).join(', ')}`
  try {
    return await tool.run(input)
  } catch (error) {
    return `error: ${error.code ?? error.name}: ${error.message}`
  }
}
