/** A client that starts a server and a command, and then waits to be killed. */
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

const [main, command] = process.argv.slice(2)
const transport = new StdioClientTransport({
  command: process.execPath,
  args: [main],
  env: { ...process.env },
})
const client = new Client({ name: 'killed', version: '1' })
await client.connect(transport)
await client.callTool({ name: 'bash', arguments: { command } })
