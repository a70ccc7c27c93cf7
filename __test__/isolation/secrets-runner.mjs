/**
 * Runs commands beside a server with TLS, and prints their results and what the server saw as JSON: `secrets-runner.mjs MODULE`,
 * with { host, key, cert, authority, value, commands, prefer } as JSON on standard input. PORT in a command is the server's port.
 */
import fs from 'node:fs'
import https from 'node:https'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const { host, key, cert, authority, value, commands, hide, programs, isOpen } = JSON.parse(
  fs.readFileSync(0, 'utf8'),
)

const seen = []
const server = https.createServer({ key, cert }, (request, response) => {
  seen.push(request.headers.authorization)
  response.end(`echo ${request.headers.authorization}`)
})
await new Promise((resolve) => server.listen(0, '0.0.0.0', resolve))
const { port } = server.address()

// Not below /tmp, where a session may have a directory of its own.
const base = fs.mkdtempSync('/var/tmp/nacre-secrets-')
const work = path.join(base, 'work')
fs.mkdirSync(work)
const hosts = [`${host}:${port}`]
const secrets = { TOKEN: { value, hosts, ...(programs && { programs: Object.keys(programs) }) } }
const isolation = {
  network: { allow: isOpen ? hosts : [], authorities: [authority], secrets, ...(programs && { programs }) },
  ...(programs && { processes: 'own' }),
  ...(hide && { filesystem: { hide, write: ['.'] } }),
}
const results = []
let trust
const left = () =>
  fs.readdirSync(process.env.TMPDIR ?? '/tmp').filter((name) => name.includes('-certificates'))
const before = left()
try {
  const sandbox = new Sandbox({ cwd: work, stateDir: path.join(base, 'state'), isolation })
  trust = (await sandbox.capabilities()).isolation.trust
  for (const command of commands) {
    const from = seen.length
    const text = command.replaceAll('PORT', port)
    const { all, exitCode } = await sandbox.exec(text, { mergeOutput: true, timeout: 60_000 })
    results.push({ all, exitCode, seen: seen.slice(from) })
  }
  await sandbox.destroy()
} finally {
  server.close()
  server.closeAllConnections()
  fs.rmSync(base, { recursive: true, force: true })
}
console.log(JSON.stringify({ results, trust, left: left().filter((name) => !before.includes(name)) }))
