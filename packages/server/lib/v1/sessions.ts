/**
 * Sessions and their variables.
 */
import { kinds, plans, unknownId } from 'nacre/internal'
import { type backends, endpoints, protocol, setEnv, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { addSimpleCalls } from './simple-calls.js'

export function addV1Sessions(define: Define, { backend, holds, sessionTimeouts }: ServerContext): void {
  addSimpleCalls(define, protocol.sessionCalls, () => backend)
  define({
    ...endpoints.createSession,
    summary: 'Creates a session.',
    body: shape(described(tables.sessionOptions)),
    errors: ['SESSION_ALREADY_EXISTS', 'CWD_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ body }) =>
      backend.createSession(kinds.readOptions(tables.sessionOptions, body, 'createSession')),
  })
  define({
    ...endpoints.getSession,
    summary: 'Returns the state of a session.',
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ params }) => requireSession(backend, params.sessionId),
  })
  define({
    method: 'POST',
    path: '/v1/sessions/{sessionId}/hold',
    summary: 'Keeps a session for the caller, until the stream of its events ends: held, complete.',
    body: shape({ owner: tables.holdOwner }, ['owner']),
    reply: 'events',
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID', 'HELD'],
    handle: async ({ params, body: { owner }, signal }) =>
      holds.events(await backend.hold(params.sessionId, owner), signal),
  })
  define({
    ...endpoints.releaseSession,
    summary: 'Ends the hold of the caller on a session.',
    errors: ['HELD'],
    handle: async ({ hold }) => holds.release(hold, undefined),
  })
  define({
    ...endpoints.deleteSession,
    summary: 'Deletes a session and kills everything in it.',
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId } }) {
      await backend.deleteSession(sessionId)
      sessionTimeouts.delete(sessionId)
    },
  })
  define({
    ...endpoints.setEnv,
    summary: 'Sets variables of a session. A null value unsets the variable.',
    body: shape({ vars: kinds.env, ...described(tables.setEnvVarsOptions) }, ['vars']),
    errors: ['SESSION_NOT_FOUND', 'ROLLED_BACK', 'INVALID_ENV_NAME', 'HELD'],
    handle: async ({ body: { vars, sessionId = plans.DEFAULT_SESSION }, hold }) =>
      setEnv(backend, sessionId, vars, hold),
  })
}

/** Resolves with the id of a session that exists. Rejects with SESSION_NOT_FOUND. */
export async function requireSession(backend: backends.Backend, sessionId: string): Promise<string> {
  if (await backend.hasSession(sessionId)) return sessionId
  throw unknownId('session', sessionId)
}
