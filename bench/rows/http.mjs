/**
 * The cost of HTTP on loopback: a command in this process and over a server in its own process, alternating.
 *
 * Many in a row, after thousands of others: until the runtime has compiled them, fetch and JSON take three times as long.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = "`exec('true')` over HTTP"
export const variants = ['']
const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))

export async function measure(_variant, { quick }) {
  const server = spawn(process.execPath, [path.join(root, 'dist/cli/main.js'), 'serve', '--port', '0'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  try {
    const [line] = await once(createInterface(server.stdout), 'line')
    const local = new Sandbox()
    const remote = new SandboxClient({ url: /http:\S+/.exec(line)[0] })
    const actions = { 'in this process': () => local.exec('true'), 'over HTTP': () => remote.exec('true') }
    const samples = await roundRobin(actions, { rounds: quick ? 2 : 8, burst: 200, warmups: quick ? 2 : 12 })
    await Promise.all([local.destroy(), remote.destroy()])
    return summarizeEach(samples)
  } finally {
    server.kill('SIGTERM')
    await once(server, 'exit')
  }
}
