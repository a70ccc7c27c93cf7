/**
 * Runs commands beside a server of the machine, and prints their results as JSON: `direct-runner.mjs MODULE`, with
 * { allow, deny, hide, directory, commands } as JSON on standard input. PORT in it stands for the server's port.
 */
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const task = fs.readFileSync(0, 'utf8')

const server = http.createServer((request, response) => response.end(`hello ${request.headers.host}`))
await new Promise((resolve) => server.listen(0, '0.0.0.0', resolve))
const { port } = server.address()
const { allow, deny, hide, directory, commands } = JSON.parse(task.replaceAll('PORT', port))

const stateDir = fs.mkdtempSync(path.join(os.tmpdir(), 'nacre-direct-state-'))
const isolation = { network: { allow, deny }, filesystem: { write: ['.'], hide } }
const results = []
try {
  const sandbox = new Sandbox({ cwd: directory, stateDir, isolation })
  for (const command of commands) {
    const { all, exitCode, denials } = await sandbox.exec(command, { mergeOutput: true, timeout: 60_000 })
    results.push({ all, exitCode, denials: denials.map(({ target }) => target) })
  }
  await sandbox.destroy()
} finally {
  server.close()
  server.closeAllConnections()
  fs.rmSync(stateDir, { recursive: true, force: true })
}
console.log(JSON.stringify({ port, results }))
