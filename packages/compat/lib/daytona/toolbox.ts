/** The toolbox below /toolbox/{id}: what Daytona runs in each sandbox, for its processes and files. */
import { createHmac } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { Secret } from '@nacre/server/internal'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Exchange, readJson, sendJson, sendNothing, textsOf } from '../http.js'
import { measure, metrics } from '../measure.js'
import type { Registry } from '../registry.js'
import type { Api } from './api.js'
import { unsupported } from './failure.js'
import { fileRoutes } from './files.js'
import { gitRoutes } from './git.js'
import { interpreterRoutes, interpreterSockets } from './interpreter.js'
import { processRoutes } from './process.js'
import type { DaytonaRecord } from './record.js'
import { type Call, match, type Routes, type SocketRoutes } from './routes.js'
import { sessionRoutes, sessionSockets } from './sessions.js'
import { acceptSocket } from './sockets.js'
import { terminalRoutes, terminalSockets } from './terminals.js'
import { decoded, listOfTexts } from './values.js'

const socketRoutes: SocketRoutes = { ...sessionSockets, ...terminalSockets, ...interpreterSockets }

/** Which clients without the key may use, by a signed address. */
const SIGNED = /^\/toolbox\/([^/]+)\/files\/(?:download|upload-v2)$/

export class Toolbox {
  readonly #api: Api
  readonly #routes: Routes

  constructor(api: Api, registry: Registry<DaytonaRecord>) {
    this.#api = api
    this.#routes = {
      'GET /version': ({ response }) => sendJson(response, 200, { version: 'nacre' }),
      'GET /user-home-dir': sendHome,
      'GET /project-dir': sendHome,
      'GET /work-dir': sendHome,
      'GET /system/metrics': sendMetrics,
      'POST /env': async ({ hosted, request, response }) => {
        const given = await readJson(request)
        const set = textsOf(given, 'set')
        const unset = listOfTexts(given, 'unset')
        // Sessions keep theirs: one that runs a command would take the change only after it.
        await hosted.sandbox.setEnvVars({
          ...Object.fromEntries(unset.map((name) => [name, undefined])),
          ...set,
        })
        for (const name of unset) delete hosted.record.env[name]
        Object.assign(hosted.record.env, set)
        await registry.save(hosted)
        sendNothing(response, 200)
      },
      ...processRoutes,
      ...sessionRoutes,
      ...terminalRoutes,
      ...fileRoutes,
      ...gitRoutes,
      ...interpreterRoutes,
    }
  }

  async serve(exchange: Exchange): Promise<void> {
    const { request, response, url } = exchange
    const { hosted, path } = this.#find(url)
    this.#connect(hosted, response)
    const found = match(this.#routes, `${request.method} ${path}`)
    if (found === undefined) throw unsupported(request)
    await found.run({ ...exchange, hosted, params: found.params })
  }

  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, url: URL): Promise<void> {
    const { hosted, path } = this.#find(url)
    if (request.headers.upgrade?.toLowerCase() !== 'websocket')
      throw new HttpError(400, 'the connection can only become a WebSocket')
    this.#connect(hosted, socket)
    const found = match(socketRoutes, `GET ${path}`)
    if (found === undefined) throw unsupported(request)
    const use = await found.run(hosted, url.searchParams, found.params, request)
    acceptSocket(request, socket, head, use)
  }

  /** Whether the address of the request is signed. Throws HttpError for a wrong signature. */
  isSigned({ request, url }: Exchange): boolean {
    const query = url.searchParams
    const [, id] = SIGNED.exec(url.pathname) ?? []
    const given = query.get('signature')
    if (id === undefined || given === null) return false
    const { record } = this.#api.find(decoded(id))
    const until = query.get('expires') ?? ''
    const text = `v1:files:${request.method}:${query.get('path') ?? ''}:${until}`
    const signature = createHmac('sha256', this.#api.signingKey(record)).update(text).digest('base64url')
    if (!new Secret(`v1_${signature}`).is(given)) throw new HttpError(401, 'the signature is wrong')
    if (until !== '0' && !(Number(until) * 1000 > Date.now()))
      throw new HttpError(401, 'the signed address has expired')
    return true
  }

  /** The end of a connection is a use, too. Throws HttpError. */
  #connect(hosted: Hosted<DaytonaRecord>, connection: Duplex | Exchange['response']): void {
    hosted.connect(connection)
    connection.once('close', () => this.#api.use(hosted))
  }

  /** Throws HttpError, unless the sandbox runs. */
  #find({ pathname }: URL): { hosted: Hosted<DaytonaRecord>; path: string } {
    const [, , id = '', ...rest] = pathname.split('/')
    const hosted = this.#api.find(decoded(id))
    if (hosted.state !== 'running') throw new HttpError(400, `the sandbox ${id} is not started`)
    this.#api.use(hosted)
    return { hosted, path: `/${rest.join('/')}` }
  }
}

function sendHome({ hosted, response }: Call): void {
  sendJson(response, 200, { dir: hosted.view.home })
}

async function sendMetrics({ hosted, response }: Call): Promise<void> {
  const now = await measure(hosted.directory)
  sendJson(response, 200, { ...metrics(now), diskFree: now.disk_total - now.disk_used })
}
