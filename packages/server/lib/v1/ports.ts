/** Where programs listen, and links to their ports. The forwarding itself is in lib/ports/. */
import { kinds } from 'nacre/internal'
import { endpoints, protocol, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { Refusal } from '../failure.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { requireSession } from './sessions.js'
import { addSimpleCalls } from './simple-calls.js'

export function addV1Ports(define: Define, { backend, links }: ServerContext): void {
  addSimpleCalls(define, protocol.portCalls, () => backend)
  define({
    ...endpoints.portLink,
    summary: 'Makes a path that leads to a port without the token, until it expires.',
    body: shape({ port: kinds.portNumber, ...described(tables.portUrlOptions) }, ['port']),
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID', 'FORBIDDEN'],
    async handle({ body: { port, ...options } }) {
      if (links === undefined)
        throw new Refusal(
          'FORBIDDEN',
          'this server forwards no ports: start it with forwardPorts, or nacre serve --forward-ports',
        )
      const { sessionId, expiresIn } = kinds.readWithDefaults(tables.portUrlOptions, options, 'portUrl')
      if (sessionId !== undefined) await requireSession(backend, sessionId)
      return links.link({ sessionId, port }, expiresIn)
    },
  })
}
