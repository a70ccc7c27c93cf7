/**
 * Sessions and their variables.
 */
import { z } from '@hono/zod-openapi'
import { engineError } from '../../base/errors.js'
import { sessionOptions, setEnvVarsOptions } from '../../protocol/session-options.js'
import { decodeEnv } from '../../schema/env.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { envSchema, queryNumber, sessionParams, strictObject, timestamp } from '../schemas.js'
import { shapeOf } from '../table-schema.js'
import { optionsOf } from '../wire.js'

const sessionSchema = z.object({ id: z.string() }).openapi('Session')

const historySchema = z
  .object({
    command: z.string(),
    startedAt: timestamp,
    duration: z.number(),
    exitCode: z.number().nullable(),
    signal: z.string().nullable(),
    stdoutBytes: z.number(),
    stderrBytes: z.number(),
  })
  .openapi('HistoryEntry')

const createBody = strictObject(shapeOf(sessionOptions))

export function addV1Sessions(define: Define, { sandbox, sessionTimeouts }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/sessions',
    tag: 'sessions',
    summary: 'Creates a session.',
    body: createBody,
    reply: sessionSchema,
    errors: ['SESSION_ALREADY_EXISTS', 'CWD_NOT_FOUND', 'INVALID_ID'],
    async handle({ body }) {
      const { id } = await sandbox.createSession(optionsOf(sessionOptions, body))
      return { id }
    },
  })
  define({
    method: 'get',
    path: '/v1/sessions',
    tag: 'sessions',
    summary: 'Lists the sessions.',
    reply: z.object({ sessions: z.array(sessionSchema) }),
    async handle() {
      const sessions = await sandbox.listSessions()
      return { sessions: sessions.map(({ id }) => ({ id })) }
    },
  })
  define({
    method: 'get',
    path: '/v1/sessions/{sessionId}',
    tag: 'sessions',
    summary: 'Returns the state of a session.',
    params: sessionParams,
    reply: sessionSchema,
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId } }) {
      const session = await sandbox.getSession(sessionId)
      if (session === null) throw engineError('SESSION_NOT_FOUND', `there is no session '${sessionId}'`)
      return { id: session.id }
    },
  })
  define({
    method: 'get',
    path: '/v1/sessions/{sessionId}/history',
    tag: 'sessions',
    summary: 'Lists the last commands of a session, oldest first.',
    params: sessionParams,
    query: strictObject({ limit: queryNumber.optional() }),
    reply: z.object({ commands: z.array(historySchema) }),
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    async handle({ params: { sessionId }, query }) {
      const session = await sandbox.getSession(sessionId)
      if (session === null) throw engineError('SESSION_NOT_FOUND', `there is no session '${sessionId}'`)
      const commands = await session.history(query)
      return { commands: commands.map((entry) => ({ ...entry, startedAt: entry.startedAt.toISOString() })) }
    },
  })
  define({
    method: 'delete',
    path: '/v1/sessions/{sessionId}',
    tag: 'sessions',
    summary: 'Deletes a session and kills everything in it.',
    params: sessionParams,
    reply: z.object({}),
    errors: ['SESSION_NOT_FOUND', 'INVALID_ID'],
    patient: true,
    async handle({ params: { sessionId } }) {
      await sandbox.deleteSession(sessionId)
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
    reply: z.object({}),
    errors: ['SESSION_NOT_FOUND', 'INVALID_ENV_NAME'],
    patient: true,
    async handle({ body: { vars, ...rest } }) {
      await sandbox.setEnvVars(decodeEnv(vars), optionsOf(setEnvVarsOptions, rest))
      return {}
    },
  })
}
