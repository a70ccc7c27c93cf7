/** envd: what E2B runs in each sandbox, for its processes and files. */
import { createHash } from 'node:crypto'
import os from 'node:os'
import { Secret } from '@nacre/server/internal'
import { HttpError, RpcError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Exchange, sendJson, sendNothing } from '../http.js'
import { measure } from '../measure.js'
import type { Registry } from '../registry.js'
import { receiveFiles, sendFile } from '../rest-files.js'
import { isStream, type Method, refuseCall, serveCall } from './connect.js'
import { filesystemMethods } from './filesystem.js'
import { serveInterpreter } from './interpreter.js'
import { metadataIn, writerWith } from './metadata.js'
import { processMethods } from './process.js'
import type { E2bRecord } from './record.js'

const PATHS =
  /^\/(?:(?:process\.Process|filesystem\.Filesystem)\/|(?:files|health|metrics|envs|execute|contexts)(?:$|\/))/

/** All of them are the user of this process. */
const USERS = ['user', 'root', os.userInfo().username]

/** Whether envd serves the path, and not the API. They have none in common. */
export function isEnvdPath(path: string): boolean {
  return PATHS.test(path)
}

export async function serveEnvd(registry: Registry<E2bRecord>, exchange: Exchange): Promise<void> {
  const { request, response, url } = exchange
  const hosted = find(registry, exchange)
  hosted.connect({
    destroy: () => breakOff(exchange),
    once: (event, listener) => response.once(event, listener),
  })
  const path = url.pathname
  if (path === '/health') return sendNothing(response)
  // The code interpreter has no token: the id of the sandbox is as secret.
  if (/^\/(execute|contexts)/.test(path)) return serveInterpreter(hosted, exchange)
  const isFiles = path === '/files'
  const isSigned = isFiles && url.searchParams.has('signature')
  if (isSigned) checkSignature(hosted, exchange)
  else if (!new Secret(hosted.record.token).is(String(request.headers['x-access-token'] ?? '')))
    throw new HttpError(401, 'the header X-Access-Token is missing or wrong')
  const user = userOf(exchange)
  if (!USERS.includes(user)) {
    const message = `there is no user '${user}'`
    if (methodOf(path) === undefined) throw new HttpError(401, message)
    return refuseCall(exchange, new RpcError('unauthenticated', message))
  }
  const route = `${request.method} ${path}`
  if (route === 'GET /files') return sendFile(hosted, exchange)
  if (route === 'POST /files') {
    const metadata = metadataIn(request)
    return sendJson(response, 200, await receiveFiles(hosted, exchange, writerWith(metadata)))
  }
  if (route === 'GET /metrics') return sendJson(response, 200, await measure(hosted.directory))
  if (route === 'GET /envs') return sendJson(response, 200, hosted.record.env)
  const method = request.method === 'POST' ? methodOf(path) : undefined
  if (method === undefined) throw new HttpError(404, `there is no route ${route}`)
  await serveCall(method, hosted, exchange)
}

/** Ends a reply when its sandbox ends or pauses. Clients of streams learn why, unless they do not read. */
function breakOff(exchange: Exchange): void {
  const { request, response } = exchange
  const canEnd = isStream(request.headers) && request.complete && response.writableLength === 0
  if (!canEnd) return void response.destroy()
  const why = 'it was paused, or the sandbox was killed or reached its end of life'
  refuseCall(exchange, new RpcError('unavailable', `the processes of the sandbox have ended: ${why}`))
}

function methodOf(path: string): Method | undefined {
  const [, service, name = ''] = path.split('/')
  const methods = service === 'process.Process' ? processMethods : filesystemMethods
  return Object.hasOwn(methods, name) ? methods[name] : undefined
}

/** The sandbox of a request: by its header, by its token, or by its signature. Throws HttpError, unless it runs. */
function find(registry: Registry<E2bRecord>, { request, url }: Exchange): Hosted<E2bRecord> {
  const { headers } = request
  const id = headers['e2b-sandbox-id']?.toString()
  const token = headers['x-access-token']?.toString()
  const isSigned = (hosted: Hosted<E2bRecord>) =>
    new Secret(sign(hosted, request.method, url)).is(url.searchParams.get('signature') ?? '')
  const hosted =
    id !== undefined
      ? registry.get(id)
      : registry
          .list()
          .find((one) => (token === undefined ? isSigned(one) : new Secret(one.record.token).is(token)))
  if (hosted?.state === 'running') return hosted
  throw new HttpError(502, `The sandbox ${id ?? ''} was not found`)
}

function checkSignature(hosted: Hosted<E2bRecord>, { request, url }: Exchange): void {
  const until = url.searchParams.get('signature_expiration')
  if (until !== null && !(Number(until) * 1000 > Date.now()))
    throw new HttpError(401, 'signature is already expired')
  if (!new Secret(sign(hosted, request.method, url)).is(url.searchParams.get('signature') ?? ''))
    throw new HttpError(401, 'invalid signature')
}

/** The signature that allows the request without a token. */
function sign({ record }: Hosted<E2bRecord>, method: string | undefined, url: URL): string {
  const query = (name: string) => url.searchParams.get(name)
  const operation = method === 'GET' ? 'read' : 'write'
  const until = query('signature_expiration')
  const text = [
    query('path') ?? '',
    operation,
    query('username') ?? '',
    record.token,
    ...(until === null ? [] : [until]),
  ]
  return `v1_${createHash('sha256').update(text.join(':')).digest('base64').replace(/=+$/, '')}`
}

function userOf({ request, url }: Exchange): string {
  const [, credentials = ''] = /^Basic +(\S+)$/i.exec(request.headers.authorization ?? '') ?? []
  const [user] = Buffer.from(credentials, 'base64').toString('utf8').split(':', 1)
  return user || url.searchParams.get('username') || 'user'
}
