/** The server over stdio: one client, and the server ends with it. */

import { readFileSync } from 'node:fs'
import { StdioServerTransport, serveStdio as serveEras } from '@modelcontextprotocol/server/stdio'
import type { Tools } from '@nacre/tools'
import { clock } from 'nacre/internal'
import { printing } from 'nacre/internal/cli'
import { createFactory } from './server.js'

const LOOK_INTERVAL = 500

/** Calls `onEnd` when the client is gone. Returns what closes the connection. */
export function serveStdio(tools: Tools, instructions: string[], onEnd: () => void): () => Promise<void> {
  const transport = new StdioServerTransport()
  const onerror = (error: Error) => printing.stderrLogger.warn(error.message)
  const handle = serveEras(createFactory(tools, instructions), { transport, onerror })
  const { onclose } = transport
  transport.onclose = () => {
    onclose?.()
    onEnd()
  }
  if (process.stdin.isTTY)
    console.error('nacre-mcp waits for an MCP client on its standard input; see nacre-mcp --help')
  // If a wrapper like npx is killed, the client still holds the other end of the input.
  const first = starter()
  const looking = clock.setInterval(() => {
    if (starter() !== first) onEnd()
  }, LOOK_INTERVAL)
  return async () => {
    clock.clearInterval(looking)
    await handle.close()
  }
}

/** The process that has started this one. It may have put a shell between, as npx does: `sh -c nacre-mcp`. */
function starter(): number {
  const parent = process.ppid
  try {
    const words = readFileSync(`/proc/${parent}/cmdline`, 'latin1')
    if (!/^(?:\S*\/)?(?:ba|da|a|z)?sh\0-c\0/.test(words)) return parent
    const stat = readFileSync(`/proc/${parent}/stat`, 'latin1')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    // It has just ended.
    return process.ppid
  }
}
