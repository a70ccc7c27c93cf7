/** `--print-config`: the entries of clients that start the server. */
import { OptionError } from 'nacre/internal/cli'

const entry = (args: string[]) => ({ command: 'npx', args })
const json = (value: object) => JSON.stringify(value, null, 2)

const CONFIGS = {
  claude: (args: string[]) => json({ mcpServers: { nacre: { type: 'stdio', ...entry(args) } } }),
  codex: (args: string[]) =>
    // The first start may have to install the package, for which Codex waits 10 s only.
    `[mcp_servers.nacre]\ncommand = "npx"\nargs = ${JSON.stringify(args)}\nstartup_timeout_sec = 60`,
  cursor: (args: string[]) => json({ mcpServers: { nacre: entry(args) } }),
  gemini: (args: string[]) => json({ mcpServers: { nacre: entry(args) } }),
  vscode: (args: string[]) => json({ servers: { nacre: { type: 'stdio', ...entry(args) } } }),
}

export type Client = keyof typeof CONFIGS

export const CLIENTS = Object.keys(CONFIGS)

/** The entry for a client. `words` is the command line with all options. Throws OptionError. */
export function configFor(client: Client, words: string[]): string {
  const at = words.findIndex((word) => /^--print-config(=|$)/.test(word))
  const others = words.toSpliced(at, words[at]?.includes('=') ? 1 : 2)
  if (others.some((word) => /^--port(=|$)/.test(word)))
    throw new OptionError('INVALID_OPTION', '--print-config prints entries for stdio: leave out --port')
  return CONFIGS[client](['-y', '@nacre/mcp', ...others])
}
