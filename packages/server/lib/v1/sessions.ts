/**
 * Sessions and their variables.
 */
import { env, readOptions, readWithDefaults, unknownId } from 'nacre/internal'
import {
  type Backend,
  DEFAULT_SESSION,
  endpoints,
  historyOptions,
  holdOwner,
  killReason,
  killSignal,
  readCommandKill,
  sessionOptions,
  setEnv,
  setEnvVarsOptions,
} from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'

export function addV1Sessions(define: Define, { backend, holds, sessionTimeouts }: ServerContext): void {
  define({
    ...endpoints.createSession,
    summary: 'Creates a session.',
    body: shape(described(sessionOptions)),
    errors: ['SESSION_ALREADY_EXISTS', 'CWD_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ body }) => ({
      id: await backend.createSession(readOptions(sessionOptions, body, 'createSession')),
    }),
  })
  define({
    ...endpoints.listSessions,
    summary: 'Lists the sessions.',
    async handle() {
      const ids = await backend.listSessions()
      return { sessions: ids.map((id) => ({ id })) }
    },
  })
  define({
    ...endpoints.getSession,
    summary: 'Returns the state of a session.',
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ params }) => ({ id: await requireSession(backend, params.sessionId) }),
  })
  define({
    ...endpoints.history,
    summary: 'Lists the last commands of a session, oldest first.',
    query: shape({ limit: queryNumber }),
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId }, query }) {
      await requireSession(backend, sessionId)
      const { limit } = readWithDefaults(historyOptions, query, 'session.history')
      return { commands: await backend.history(sessionId, limit) }
    },
  })
  define({
    ...endpoints.running,
    summary: 'Lists the running command of a session and those that wait, in their order.',
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ params }) => ({ commands: await backend.running(params.sessionId) }),
  })
  define({
    ...endpoints.sessionStats,
    summary: 'Returns the processor time, memory, processes and open files of a session.',
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ params }) => backend.sessionStats(params.sessionId),
  })
  define({
    ...endpoints.killCommand,
    summary: 'Kills a running command, or removes a waiting one, by its id among those that run.',
    body: shape({ signal: killSignal, ...described(killReason) }),
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId, commandId }, body: { signal, ...options } }) {
      const request = readCommandKill(signal, options, 'session.killCommand')
      return { killed: await backend.killCommand(sessionId, commandId, request) }
    },
  })
  define({
    method: 'POST',
    path: '/v1/sessions/{sessionId}/hold',
    summary: 'Keeps a session for the caller, until the stream of its events ends: held, complete.',
    body: shape({ owner: holdOwner }, ['owner']),
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
    body: shape({ vars: env, ...described(setEnvVarsOptions) }, ['vars']),
    errors: ['SESSION_NOT_FOUND', 'ROLLED_BACK', 'INVALID_ENV_NAME', 'HELD'],
    handle: async ({ body: { vars, sessionId = DEFAULT_SESSION }, hold }) =>
      setEnv(backend, sessionId, vars, hold),
  })
}

/** Resolves with the id of a session that exists. Rejects with SESSION_NOT_FOUND. */
export async function requireSession(backend: Backend, sessionId: string): Promise<string> {
  if (await backend.hasSession(sessionId)) return sessionId
  throw unknownId('session', sessionId)
}
