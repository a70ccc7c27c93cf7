/** The protocol's view of the tools. */

import {
  type ListToolsResult,
  ProtocolError,
  ProtocolErrorCode,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { ToolContext, Tools } from '@nacre/tools'
import { VERSION } from 'nacre/internal'

/** Called after each call of a tool. `opened` is the session that it has opened. */
export type OnCall = (name: string, input: Record<string, unknown>, opened: string | undefined) => void

/** Returns what creates server objects of the SDK. Over HTTP each request has one, so they have no state. */
export function createFactory(tools: Tools, instructions: string[], onCall: OnCall = () => {}): () => Server {
  const list = tools.list.map(({ execute: _, ...definition }) => definition)
  return () => {
    const server = new Server(
      { name: 'nacre', version: VERSION },
      { capabilities: { tools: {} }, instructions: [tools.instructions, ...instructions].join(' ') },
    )
    server.setRequestHandler('tools/list', () => ({ tools: list }) as ListToolsResult)
    server.setRequestHandler('tools/call', async ({ params }, context) => {
      const { name, arguments: input = {} } = params
      const tool = tools.get(name)
      if (tool === undefined)
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          `There is no tool ${JSON.stringify(name)}. Tools: ${list.map((known) => known.name).join(', ')}.`,
        )
      const { text, isError, data } = await tool.execute(input, {
        signal: context.mcpReq.signal,
        onProgress: progressOf(context),
      })
      onCall(name, input, data.session)
      // Models see structuredContent, but not this.
      return { content: [{ type: 'text', text }], isError, _meta: { 'nacre/data': data } }
    })
    return server
  }
}

/** Notifies a caller that has asked for progress. The protocol wants numbers that grow. */
function progressOf({ mcpReq }: ServerContext): ToolContext['onProgress'] {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return undefined
  let last = 0
  return ({ seconds, message }) => {
    if (seconds <= last) return
    last = seconds
    const params = { progressToken, progress: seconds, message }
    // The client may have gone.
    mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
  }
}
