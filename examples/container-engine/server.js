/**
 * The container: sessions behind an HTTP route, `POST /api/execute` with `{ sessionId, command }`. It uses only the
 * interface of the session class, so swapping the engine does not change a line here.
 */
import http from 'node:http'
import { ShellTerminatedError } from './errors.js'

const MAX_BODY = 1 << 20
const COMMAND_TIMEOUT_MS = 1000

export function createContainer(Session) {
  const sessions = new Map()

  /** Returns the session of an id. A session whose shell has ended is replaced. */
  async function sessionOf(id) {
    const known = sessions.get(id)
    if (known?.isReady()) return known
    await known?.destroy()
    const session = new Session({ id, commandTimeoutMs: COMMAND_TIMEOUT_MS })
    sessions.set(id, session)
    await session.initialize()
    return session
  }

  async function execute({ sessionId = 'default', command }) {
    const session = await sessionOf(sessionId)
    try {
      const { stdout, stderr, exitCode } = await session.exec(command)
      return { status: 200, body: { stdout, stderr, exitCode } }
    } catch (error) {
      if (error instanceof ShellTerminatedError)
        return { status: 410, body: { code: 'SESSION_TERMINATED', message: error.message } }
      return { status: 500, body: { code: 'COMMAND_FAILED', message: error.message } }
    }
  }

  const server = http.createServer(async (request, response) => {
    if (request.method !== 'POST' || request.url !== '/api/execute') {
      response.writeHead(404).end()
      return
    }
    let text = ''
    for await (const chunk of request) {
      text += chunk
      if (text.length > MAX_BODY) {
        response.writeHead(413).end()
        return
      }
    }
    const { status, body } = await execute(JSON.parse(text))
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })

  return {
    listen: () =>
      new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port))),
    async close() {
      server.close()
      server.closeAllConnections()
      await Promise.all([...sessions.values()].map((session) => session.destroy()))
    },
  }
}
