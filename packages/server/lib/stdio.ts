/**
 * The server on standard input and output, as HTTP/2: `nacre serve --stdio`. Its one client is the program that has started
 * it, so there is no address, no port and no token.
 *
 * The end of the input ends the server and the sandbox. So nothing is left when the client, or a program between the two,
 * ends in whatever way.
 */
import { createServer, type ServerHttp2Session } from 'node:http2'
import { getRequestListener } from '@hono/node-server'
import type { Logger, Sandbox } from 'nacre'
import { clock, OptionError, report } from 'nacre/internal'
import { backendOf, pipes } from 'nacre/internal/server'
import { planServer } from './plan.js'
import { openPort } from './port.js'
import { buildServer } from './server.js'
import { openStreamSocket } from './upgrade.js'
import { within } from './within.js'

/** Milliseconds that the sandbox has to end. */
const END_MS = 10_000

/**
 * Serves until the client has ended, or until a signal, which lets the last replies out first; a second one does not. Resolves with whether the sandbox has ended in time. With `hasPorts`,
 * the client can also connect to servers on this machine.
 */
export async function serveStdio(sandbox: Sandbox, logger: Logger, hasPorts = false): Promise<boolean> {
  const { stdin, stdout } = process
  if (stdin.isTTY || stdout.isTTY)
    throw new OptionError(
      'INVALID_OPTION',
      '--stdio is for the program that starts it, not for a terminal: use connectProgram of nacre/engine, with ssh -T, ' +
        'and docker exec -i or kubectl exec -i without -t',
    )
  // Anything else on standard output would break the protocol.
  console.log = console.info = console.debug = console.error
  const server = buildServer(backendOf(sandbox), planServer({ authenticated: true, logger }))
  const listener = createServer({
    maxSessionMemory: pipes.MOST_MEMORY_MB,
    settings: { enableConnectProtocol: true, initialWindowSize: pipes.STREAM_WINDOW },
  })
  const fetch: typeof server.fetch = async (request, env) => {
    const response = await server.fetch(request, env)
    // HTTP/2 has no such header: node:http2 would throw.
    response.headers.delete('upgrade')
    return response
  }
  const answer = getRequestListener(fetch, { hostname: 'localhost', overrideGlobalObjects: false })
  listener.on('request', answer)
  listener.on('connect', (incoming, outgoing) => {
    if (hasPorts && incoming.headers[':protocol'] === undefined) openPort(outgoing.stream, incoming.authority)
    else void openStreamSocket(fetch, incoming, outgoing)
  })
  let connection: ServerHttp2Session | undefined
  const ended = new Promise<void>((resolve) => {
    listener.on('session', (session: ServerHttp2Session) => {
      connection = session
      pipes.widen(session)
      session.on('error', (error) => report(logger, 'error', `the connection failed: ${error.message}`))
      session.on('close', resolve)
      pipes.ping(session)
    })
    for (const pipe of [stdin, stdout]) pipe.on('error', () => resolve()).on('close', resolve)
    stdin.on('end', resolve)
    let isLeaving = false
    const leave = async () => {
      if (isLeaving) return resolve()
      isLeaving = true
      await within(END_MS, server.close())
      clock.setTimeout(resolve, END_MS).unref()
      // The last replies are sent first.
      if (connection === undefined) resolve()
      else connection.close()
    }
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, () => void leave())
  })
  listener.emit('connection', pipes.duplexOf(stdin, stdout))
  await ended
  return within(END_MS, sandbox.destroy())
}
