/** Serves the API of E2B. */
import { HttpError, httpError } from '../failure.js'
import { planE2b } from '../options.js'
import type { E2bOptions, ServingE2b } from '../public.js'
import { type Context, openServer, type Service } from '../server.js'
import { Api } from './api.js'
import { isEnvdPath, serveEnvd } from './envd.js'
import { dueOf, type E2bRecord, newRecord } from './record.js'

/** Previews with these ports stand for envd and the code interpreter. */
const OWN_PORTS = [49_983, 49_999]

/** See public.ts. */
export async function serveE2b(options?: E2bOptions): Promise<ServingE2b> {
  const { url, key, close } = await openServer<E2bRecord>(planE2b(options), {
    name: 'e2b',
    home: '/home/user',
    user: 'user',
    isKept: false,
    due: dueOf,
    environment: ({ id, template }) => ({
      E2B_SANDBOX: 'true',
      E2B_SANDBOX_ID: id,
      E2B_TEMPLATE_ID: template,
    }),
    probe: () =>
      newRecord(60_000, {
        template: 'base',
        metadata: {},
        env: {},
        pausesOnTimeout: false,
        keepsMemory: false,
        network: 'host',
      }),
    serve,
  })
  const env = { E2B_API_KEY: key, E2B_API_URL: url, E2B_SANDBOX_URL: url }
  return { url, key, env, close, [Symbol.asyncDispose]: close }
}

function serve(context: Context<E2bRecord>): Service {
  const { registry } = context
  const api = new Api(context, `localhost:${context.port}`)
  return {
    request: (exchange) =>
      isEnvdPath(exchange.url.pathname) ? serveEnvd(registry, exchange) : api.serve(exchange),
    async upgrade() {
      throw new HttpError(404, 'only previews have WebSockets')
    },
    failure: httpError,
    describe: ({ status, message }) => ({ code: status, message }),
    previewed: ({ id, port }) => (OWN_PORTS.includes(port) ? 'own' : registry.get(id)),
  }
}
