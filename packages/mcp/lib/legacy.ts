/** Connections of clients that speak a protocol before 2026-07-28: each has an id, and its own server object. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { NodeStreamableHTTPServerTransport } from '@modelcontextprotocol/node'
import type { Server } from '@modelcontextprotocol/server'
import { refuse } from './guard.js'
import { IdleLimit } from './idle.js'

/** A client that crashes does not close its connection. */
const MOST_CONNECTIONS = 256

interface Connection {
  server: Server
  transport: NodeStreamableHTTPServerTransport
}

export class LegacyConnections {
  readonly #create: () => Server
  readonly #idle: IdleLimit
  /** The least recently used first. */
  readonly #open = new Map<string, Connection>()

  constructor(create: () => Server, idleTime: number) {
    this.#create = create
    this.#idle = new IdleLimit(idleTime)
  }

  async serve(request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void> {
    const id = request.headers['mcp-session-id']
    if (typeof id === 'string') {
      const known = this.#open.get(id)
      // The client opens a new connection then.
      if (known === undefined)
        return refuse(response, { status: 404, message: 'there is no such connection' })
      this.#open.delete(id)
      this.#open.set(id, known)
      this.#idle.use(id)
      return known.transport.handleRequest(request, response, body)
    }
    const server = this.#create()
    const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (newId) => this.#add(newId, { server, transport }),
    })
    await server.connect(transport)
    await transport.handleRequest(request, response, body)
    if (transport.sessionId === undefined) await server.close()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ server }) => server.close()))
  }

  #add(id: string, connection: Connection): void {
    const { server } = connection
    this.#open.set(id, connection)
    this.#idle.add(id, () => server.close())
    server.onclose = () => {
      this.#open.delete(id)
      this.#idle.remove(id)
    }
    const [oldest] = this.#open.values()
    if (this.#open.size > MOST_CONNECTIONS) void oldest?.server.close()
  }
}
