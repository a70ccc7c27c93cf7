/** The server over stdio: one client, and the server ends with it. */
import { StdioServerTransport, serveStdio as serveEras } from '@modelcontextprotocol/server/stdio'
import type { Tools } from '@nacre/tools'
import { stderrLogger } from 'nacre/internal/cli'
import { createFactory } from './server.js'

const LOOK_INTERVAL = 500

/** Calls `onEnd` when the client is gone. Returns what closes the connection. */
export function serveStdio(tools: Tools, instructions: string[], onEnd: () => void): () => Promise<void> {
  const transport = new StdioServerTransport()
  const onerror = (error: Error) => stderrLogger.warn(error.message)
  const handle = serveEras(createFactory(tools, instructions), { transport, onerror })
  const { onclose } = transport
  transport.onclose = () => {
    onclose?.()
    onEnd()
  }
  if (process.stdin.isTTY)
    console.error('nacre-mcp waits for an MCP client on its standard input; see nacre-mcp --help')
  // If a wrapper like npx is killed, the client still holds the other end of the input.
  const parent = process.ppid
  const looking = setInterval(() => {
    if (process.ppid !== parent) onEnd()
  }, LOOK_INTERVAL)
  return async () => {
    clearInterval(looking)
    await handle.close()
  }
}
