/**
 * MCP servers with a shell: nacre's, over stdio and over HTTP, and others over stdio. Writes the section "MCP servers" of
 * `bench/RESULTS.md`.
 *
 *   node bench/mcp.mjs [--quick]
 *
 * Needs the build, a registry of npm, from which it installs the others in a temporary directory, and no other load. Takes two minutes.
 * A quick run prints its table and writes nothing.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { describeMachine } from './machine.mjs'
import { MCP, replaceSection } from './section.mjs'
import { median, roundRobin, summarize, time } from './stats.mjs'
import { digits, table } from './text.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const RESULTS = path.join(root, 'bench/RESULTS.md')
const NACRE = path.join(root, 'packages/mcp/dist/main.js')
const LINES = 200_000
/** Servers that need no compiler. */
const PEERS = [
  {
    package: '@wonderwhy-er/desktop-commander',
    version: '0.2.52',
    main: 'dist/index.js',
    call: (command) => ({ name: 'start_process', arguments: { command, timeout_ms: 60_000 } }),
  },
  {
    package: 'mcp-server-commands',
    version: '0.5.0',
    main: 'build/index.js',
    call: (command) => ({ name: 'run_command', arguments: { command } }),
  },
]

const { values } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-bench-mcp-'))
const work = path.join(base, 'work')
const env = { PATH: process.env.PATH, HOME: path.join(base, 'home'), NACRE_NATIVE: process.env.NACRE_NATIVE }
if (env.NACRE_NATIVE === undefined) delete env.NACRE_NATIVE

const servers = []
try {
  const facts = describeMachine(root, { Node: process.execPath })
  installPeers()
  servers.push(await overStdio('nacre', NACRE, (command) => ({ name: 'bash', arguments: { command } })))
  servers.push(await overHttp())
  for (const { package: name, version, main, call } of PEERS)
    servers.push(await overStdio(`${name} ${version}`, path.join(base, 'node_modules', name, main), call))
  const result = await measure()
  console.log(result)
  if (!values.quick) {
    const intro = `Written by \`npm run bench:mcp\` on ${facts.Date}, with nacre ${facts.nacre} and Node ${facts.Node}; the load before the run was
${facts['Load before the run']}. Tokens are of o200k.`
    writeFileSync(RESULTS, replaceSection(readFileSync(RESULTS, 'utf8'), MCP, `${intro}\n\n${result}`))
  }
} finally {
  for (const { close } of servers) await close()
  rmSync(base, { recursive: true, force: true })
}

/** Installs the other servers, without their install scripts. */
function installPeers() {
  const settings = path.join(env.HOME, '.claude-server-commander')
  for (const directory of [work, settings]) mkdirSync(directory, { recursive: true })
  writeFileSync(path.join(settings, 'config.json'), JSON.stringify({ telemetryEnabled: false }))
  writeFileSync(path.join(base, 'package.json'), JSON.stringify({ private: true }))
  const names = PEERS.map(({ package: name, version }) => `${name}@${version}`)
  const args = ['install', '--silent', '--ignore-scripts', '--no-audit', '--no-fund', ...names]
  execFileSync('npm', args, { cwd: base, stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 })
}

/** Starts a server with its client. `start` is the time until its first reply, in ms. */
async function overStdio(name, file, call) {
  const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: 'legacy' } })
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [file],
    cwd: work,
    env,
    stderr: 'ignore',
  })
  const start = await time(() => client.connect(transport))
  return { name: `${name}, stdio`, start, client, call, close: () => client.close() }
}

async function overHttp() {
  const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: 'legacy' } })
  const begun = performance.now()
  const server = spawn(process.execPath, [NACRE, '--port', '0'], {
    cwd: work,
    env,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  const ended = once(server, 'exit')
  let url
  for await (const line of createInterface(server.stderr)) {
    url ??= /listens on (\S+)/.exec(line)?.[1]
    const token = /^token: (\S+)/.exec(line)?.[1]
    if (token === undefined) continue
    const requestInit = { headers: { authorization: `Bearer ${token}` } }
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }))
    break
  }
  const start = performance.now() - begun
  const opened = await client.callTool({ name: 'sessions', arguments: { open: 'bench' } })
  const { session } = /** @type {{ session: string }} */ (opened._meta['nacre/data'])
  return {
    name: 'nacre, HTTP',
    start,
    client,
    call: (command) => ({ name: 'bash', arguments: { command, session } }),
    close: async () => {
      await client.close()
      server.kill('SIGTERM')
      await ended
    },
  }
}

/** The reply to a command, as the model reads it. */
async function run({ client, call }, command) {
  const { content } = await client.callTool(call(command), { timeout: 120_000 })
  return content.map(({ text }) => text ?? '').join('\n')
}

async function measure() {
  const actions = Object.fromEntries(servers.map((server) => [server.name, () => run(server, 'true')]))
  const settings = values.quick ? { rounds: 2, burst: 5, warmups: 1 } : { rounds: 20, burst: 10, warmups: 3 }
  const samples = await roundRobin(actions, settings)
  const rows = []
  for (const server of servers) {
    const { tools } = await server.client.listTools()
    const { median: middle, p99 } = summarize(samples[server.name])
    const reply = await run(server, 'true')
    const times = []
    let lines = ''
    for (let round = 0; round < (values.quick ? 1 : 5); round++)
      times.push(
        await time(async () => {
          lines = await run(server, `seq ${LINES}`)
        }),
      )
    const numbers = [
      ...[server.start, countTokens(JSON.stringify({ tools })), middle, p99, countTokens(reply)],
      ...[median(times), countTokens(lines)],
    ]
    rows.push([server.name, ...numbers.map(digits)])
  }
  const head = [
    ...['server', 'start, ms', 'tokens of `tools/list`', '`true`, p50, ms', 'p99', 'tokens'],
    ...[`${LINES} lines, ms`, 'tokens'],
  ]
  return table(head, rows)
}
