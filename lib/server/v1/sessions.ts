/**
 * Sessions and their variables.
 */
import { engineError } from '../../base/errors.js'
import * as replies from '../../protocol/replies.js'
import { historyOptions, sessionOptions, setEnvVarsOptions } from '../../protocol/session-options.js'
import { DEFAULT_SESSION } from '../../requests/exec.js'
import type { Backend } from '../../sandbox/backend.js'
import { setEnv } from '../../sandbox/runner.js'
import { decodeEnv } from '../../schema/env.js'
import { readId } from '../../schema/names.js'
import { readOptions } from '../../schema/read.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { envSchema, queryNumber, sessionParams, strictObject } from '../schemas.js'
import { shapeOf } from '../table-schema.js'
import { optionsOf } from '../wire.js'

const createBody = strictObject(shapeOf(sessionOptions))

export function addV1Sessions(define: Define, { backend, sessionTimeouts }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/sessions',
    tag: 'sessions',
    summary: 'Creates a session.',
    body: createBody,
    reply: replies.session,
    errors: ['SESSION_ALREADY_EXISTS', 'CWD_NOT_FOUND', 'INVALID_ID'],
    async handle({ body }) {
      const values = readOptions(sessionOptions, optionsOf(sessionOptions, body), 'createSession')
      return { id: await backend.createSession(values) }
    },
  })
  define({
    method: 'get',
    path: '/v1/sessions',
    tag: 'sessions',
    summary: 'Lists the sessions.',
    reply: replies.sessions,
    async handle() {
      const ids = await backend.listSessions()
      return { sessions: ids.map((id) => ({ id })) }
    },
  })
  define({
    method: 'get',
    path: '/v1/sessions/{sessionId}',
    tag: 'sessions',
    summary: 'Returns the state of a session.',
    params: sessionParams,
    reply: replies.session,
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId } }) {
      return { id: await requireSession(backend, sessionId) }
    },
  })
  define({
    method: 'get',
    path: '/v1/sessions/{sessionId}/history',
    tag: 'sessions',
    summary: 'Lists the last commands of a session, oldest first.',
    params: sessionParams,
    query: strictObject({ limit: queryNumber.optional() }),
    reply: replies.history,
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId }, query }) {
      await requireSession(backend, sessionId)
      const { limit } = readOptions(historyOptions, query, 'session.history')
      return { commands: await backend.history(sessionId, limit) }
    },
  })
  define({
    method: 'delete',
    path: '/v1/sessions/{sessionId}',
    tag: 'sessions',
    summary: 'Deletes a session and kills everything in it.',
    params: sessionParams,
    reply: replies.empty,
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    patient: true,
    async handle({ params: { sessionId } }) {
      await backend.deleteSession(readId(sessionId))
      sessionTimeouts.delete(sessionId)
      return {}
    },
  })
  define({
    method: 'post',
    path: '/v1/env',
    tag: 'sessions',
    summary: 'Sets variables of a session. A null value unsets the variable.',
    body: strictObject({ vars: envSchema, ...shapeOf(setEnvVarsOptions) }),
    reply: replies.empty,
    errors: ['SESSION_NOT_FOUND', 'INVALID_ENV_NAME'],
    patient: true,
    async handle({ body: { vars, ...rest } }) {
      const values = readOptions(setEnvVarsOptions, optionsOf(setEnvVarsOptions, rest), 'setEnvVars')
      await setEnv(backend, values.sessionId ?? DEFAULT_SESSION, decodeEnv(vars))
      return {}
    },
  })
}

/** Resolves with the id of a session that exists. Rejects with SESSION_NOT_FOUND. */
export async function requireSession(backend: Backend, sessionId: string): Promise<string> {
  if (await backend.hasSession(readId(sessionId))) return sessionId
  throw engineError('SESSION_NOT_FOUND', `there is no session '${sessionId}'`)
}
