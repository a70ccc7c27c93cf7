/** Serves the API of Daytona. */
import type { IncomingMessage } from 'node:http'
import { Secret } from '@nacre/server/internal'
import { HttpError } from '../failure.js'
import { planDaytona } from '../options.js'
import type { DaytonaOptions, ServingDaytona } from '../public.js'
import { ADDRESS, type Context, openServer, type Service } from '../server.js'
import { Api } from './api.js'
import { Events } from './events.js'
import { daytonaError, describeError, unsupported } from './failure.js'
import { type DaytonaRecord, dueOf, newRecord, noteChange } from './record.js'
import { acceptSocket } from './sockets.js'
import { Toolbox } from './toolbox.js'

/** See public.ts. */
export async function serveDaytona(options?: DaytonaOptions): Promise<ServingDaytona> {
  const { url, key, close } = await openServer<DaytonaRecord>(planDaytona(options), {
    name: 'daytona',
    home: '/home/daytona',
    user: 'daytona',
    isKept: true,
    due: dueOf,
    environment: ({ id, snapshot, user }) => ({
      DAYTONA_SANDBOX_ID: id,
      DAYTONA_SANDBOX_SNAPSHOT: snapshot,
      DAYTONA_SANDBOX_USER: user,
    }),
    probe: () =>
      newRecord({
        labels: {},
        env: {},
        user: 'daytona',
        snapshot: 'local',
        isPublic: false,
        network: 'host',
        autoStop: 0,
        autoArchive: 0,
        autoDelete: 0,
        ttl: 0,
      }),
    serve,
  })
  const api = `${url}/api`
  const env = { DAYTONA_API_KEY: key, DAYTONA_API_URL: api }
  return { url: api, key, env, close, [Symbol.asyncDispose]: close }
}

function serve(context: Context<DaytonaRecord>): Service {
  const { registry } = context
  const key = new Secret(context.key)
  const api = new Api(context, `http://${ADDRESS}:${context.port}`)
  const toolbox = new Toolbox(api, registry)
  const events = new Events()
  // They ran when a server was killed.
  for (const hosted of registry.list()) if (hosted.record.stoppedAt === 0) api.stopped(hosted)
  registry.onChange = (hosted, change, now) => {
    noteChange(hosted.record, change, now)
    const states = { running: 'started', paused: 'stopped', removed: 'destroyed' }
    const newState = states[change]
    const oldState = change === 'paused' ? 'started' : 'stopped'
    events.emit('sandbox.state.updated', { sandbox: api.shown(hosted, newState), oldState, newState })
  }
  const hasKey = ({ headers }: IncomingMessage) =>
    key.is(/^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '')
  const expectKey = (request: IncomingMessage) => {
    if (!hasKey(request))
      throw new HttpError(401, 'the key is missing or wrong: set DAYTONA_API_KEY to the key of this server')
  }
  return {
    async request(exchange) {
      const { request, url } = exchange
      if (url.pathname.startsWith('/toolbox/')) {
        if (!toolbox.isSigned(exchange)) expectKey(request)
        return toolbox.serve(exchange)
      }
      expectKey(request)
      if (url.pathname.startsWith('/api/')) return api.serve(exchange)
      throw new HttpError(404, 'the address must begin with /api or /toolbox')
    },
    async upgrade(request, socket, head, url) {
      // Clients of events send the key later.
      if (url.pathname === '/api/socket.io/')
        return acceptSocket(request, socket, head, (client) => events.open(client, (given) => key.is(given)))
      expectKey(request)
      if (!url.pathname.startsWith('/toolbox/')) throw unsupported(request)
      return toolbox.upgrade(request, socket, head, url)
    },
    failure: daytonaError,
    describe: (error, { request }) => describeError(error, request),
    previewed: ({ id, port }) => api.previewed(id, port),
  }
}
