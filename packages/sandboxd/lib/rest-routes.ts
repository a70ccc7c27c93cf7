/**
 * The routes of the REST API.
 */

import type { IncomingMessage } from 'node:http'
import { clock } from 'nacre/internal'
import { answerLegacy, LEGACY } from './legacy.js'
import { metadataOf } from './metadata.js'
import { RestRefusal } from './rest-error.js'
import { type Reply, readFile, removeFile, writeFile } from './rest-files.js'
import type { Runtime } from './runtime.js'
import { pathBelowRoot, targetOf } from './target.js'

const FILES = '/v1/files'

export interface Routes {
  runtime: Runtime
  /** Of variables that `/v1/metadata` shows. */
  metadataPrefix: string
  /** Whether requests are served: false once the server ends. */
  isServing: () => boolean
  startedAt: number
}

/** Answers a request. Rejects with what `failureOf` knows. */
export async function answer(routes: Routes, incoming: IncomingMessage, signal: AbortSignal): Promise<Reply> {
  const { route, query } = targetOf(incoming.url ?? '/')
  const { runtime } = routes
  if (!routes.isServing() || runtime.isDestroyed)
    throw new RestRefusal('UNAVAILABLE', 'the sandbox has ended, or is ending')
  if (route === '/v1/health') {
    allow(incoming, 'GET', 'HEAD')
    const uptime_seconds = Math.floor((clock.performance.now() - routes.startedAt) / 1000)
    return { json: { status: 'ok', uptime_seconds } }
  }
  if (route === '/v1/metadata') {
    allow(incoming, 'GET', 'HEAD')
    return { json: { env: metadataOf(runtime.env(), routes.metadataPrefix) } }
  }
  const [, segment = '', rest = ''] = /^\/([a-z]+)(?:\/(.*))?$/s.exec(route) ?? []
  const method = Object.hasOwn(LEGACY, segment) ? LEGACY[segment] : undefined
  if (method !== undefined) {
    allow(incoming, method)
    return answerLegacy(runtime, segment, rest, incoming, signal)
  }
  if (route !== FILES && !route.startsWith(`${FILES}/`))
    throw new RestRefusal('NOT_FOUND', 'there is no such route')
  allow(incoming, 'GET', 'HEAD', 'PUT', 'DELETE')
  const path = pathBelowRoot(route.slice(FILES.length))
  if (incoming.method === 'PUT') return writeFile(runtime, path, query, incoming, signal)
  if (incoming.method === 'DELETE') return runtime.inSession(() => removeFile(runtime.files, path, query))
  return runtime.inSession(() => readFile(runtime.files, path, incoming, signal))
}

function allow({ method }: IncomingMessage, ...methods: string[]): void {
  if (methods.includes(method ?? '')) return
  const message = `the method must be ${methods.join(', ')}`
  throw new RestRefusal('METHOD_NOT_ALLOWED', message, { allow: methods.join(', ') })
}
