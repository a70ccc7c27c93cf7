/**
 * Runs commands beside a server that one program may reach, and prints their output and what was asked of the server as JSON:
 * `programs-runner.mjs MODULE`, with { commands, address, env, isolation, isOpen, programs, own, workspace, session } as JSON on standard
 * input. In a command, CLIENT is the program, TARGET the server by the proxy, OUTER without it, and OWN another host of the
 * program; attack and library.so are in the working directory.
 */
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const {
  commands,
  address,
  env,
  isolation = {},
  isOpen = false,
  programs,
  own,
  workspace,
  session,
} = JSON.parse(
  fs.readFileSync(0, 'utf8').replaceAll('"BIN"', JSON.stringify(path.join(import.meta.dirname, 'bin'))),
)

const asked = []
const server = http.createServer((request, response) => {
  asked.push(request.url)
  response.end(`reached ${request.url}\n`)
})
await new Promise((resolve) => server.listen(0, '0.0.0.0', resolve))
const { port } = server.address()
const [target, outer] = ['127.0.0.1', address].map((host) => `${host}:${port}`)

// Not below /tmp, where a session may have a directory of its own.
const base = fs.mkdtempSync('/var/tmp/nacre-programs-')
const work = path.join(base, 'work')
const bin = path.join(import.meta.dirname, 'bin')
const client = path.join(bin, 'client')
fs.mkdirSync(work)
for (const name of ['attack', 'library.so', 'data.so'])
  fs.copyFileSync(path.join(bin, name), path.join(work, name))
const rules = (given) =>
  Object.fromEntries(
    Object.entries(given).map(([name, one]) => [
      name,
      {
        allow: [target, outer, ...(own ? [own] : [])],
        ...one,
        ...(one.files && { files: one.files.map((file) => file.replace('WORK', work)) }),
      },
    ]),
  )
const results = []
let code
try {
  const sandbox = new Sandbox({
    ...{ cwd: work, stateDir: path.join(base, 'state') },
    env: {
      TARGET: target,
      OUTER: outer,
      CLIENT: client,
      PATH: `${bin}:${process.env.PATH}`,
      ...(own && { OWN: own }),
      ...env,
    },
    ...(workspace && { workspace }),
    isolation: {
      ...{ filesystem: { write: ['.'] }, processes: 'own' },
      ...isolation,
      network: {
        allow: ['other.test:80', ...(isOpen ? [target] : [])],
        ...(programs !== null && { programs: rules(programs ?? { client: {} }) }),
        ...isolation.network,
      },
    },
  })
  const runner = session === undefined ? sandbox : await sandbox.createSession({ isolation: session })
  for (const command of commands) {
    const from = asked.length
    const { all, exitCode, denials } = await runner.exec(command, { mergeOutput: true, timeout: 120_000 })
    results.push({ all, exitCode, denials, asked: asked.slice(from) })
  }
  await sandbox.destroy()
  // What was sent has arrived then.
  server.closeIdleConnections()
  await new Promise((resolve) => server.close(resolve))
} catch (error) {
  code = `${error.code}: ${error.message}`
} finally {
  server.close()
  server.closeAllConnections()
  fs.rmSync(base, { recursive: true, force: true })
}
console.log(JSON.stringify({ results, asked, target, client, code }))
