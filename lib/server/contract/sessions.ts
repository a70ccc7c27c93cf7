/**
 * Sessions and their variables, as clients of a sandbox container know them.
 */
import { z } from '@hono/zod-openapi'
import { os } from '../../base/builtin.js'
import { SandboxError } from '../../base/errors.js'
import type { Session, SessionOptions } from '../../public/index.js'
import { decodeEnv } from '../../schema/env.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { doneSchema, envSchema, idSchema, timestamp } from '../schemas.js'
import { now } from './values.js'

const createBody = z.object({
  id: idSchema.optional(),
  env: envSchema.optional(),
  cwd: z.string().optional(),
  commandTimeoutMs: z.number().min(0).max(2_147_483_647).optional(),
})

const envBody = z.object({ envVars: envSchema, sessionId: idSchema.optional() })

export function addSessions(define: Define, { sandbox, sessionTimeouts }: ServerContext): void {
  define({
    method: 'post',
    path: '/api/session/create',
    tag: 'container',
    summary: 'Creates a session.',
    body: createBody,
    reply: z.object({ success: z.literal(true), data: z.object({ id: z.string() }), timestamp }),
    errors: ['SESSION_ALREADY_EXISTS'],
    async handle({ body: { id, env, cwd, commandTimeoutMs } }) {
      const create = (options: SessionOptions) => sandbox.createSession(options)
      const session = await createAnywhere(create, { id, env: env && decodeEnv(env), cwd })
      if (commandTimeoutMs === undefined) sessionTimeouts.delete(session.id)
      else sessionTimeouts.set(session.id, commandTimeoutMs)
      return { success: true, data: { id: session.id }, timestamp: now() }
    },
  })
  define({
    method: 'get',
    path: '/api/session/list',
    tag: 'container',
    summary: 'Lists the ids of the sessions.',
    reply: z.object({ success: z.literal(true), data: z.array(z.string()), timestamp }),
    async handle() {
      const sessions = await sandbox.listSessions()
      return { success: true, data: sessions.map(({ id }) => id), timestamp: now() }
    },
  })
  define({
    method: 'post',
    path: '/api/session/delete',
    tag: 'container',
    summary: 'Deletes a session and kills everything in it.',
    body: z.object({ sessionId: idSchema }),
    reply: z.object({ success: z.literal(true), sessionId: z.string(), timestamp }),
    errors: ['SESSION_NOT_FOUND'],
    async handle({ body: { sessionId } }) {
      await sandbox.deleteSession(sessionId)
      sessionTimeouts.delete(sessionId)
      return { success: true, sessionId, timestamp: now() }
    },
  })
  define({
    method: 'post',
    path: '/api/env/set',
    tag: 'container',
    summary: 'Sets variables of a session. A null value unsets the variable.',
    body: envBody,
    reply: doneSchema,
    errors: ['SESSION_NOT_FOUND'],
    async handle({ body: { envVars, sessionId } }) {
      await sandbox.setEnvVars(decodeEnv(envVars), { sessionId })
      return { success: true, timestamp: now() }
    },
  })
}

/** A session whose directory is missing starts in the home directory. */
async function createAnywhere(
  create: (options: SessionOptions) => Promise<Session>,
  options: SessionOptions,
): Promise<Session> {
  try {
    return await create(options)
  } catch (error) {
    const isLost = error instanceof SandboxError && error.code === 'CWD_NOT_FOUND'
    if (!isLost || options.cwd === undefined) throw error
    return create({ ...options, cwd: os.homedir() })
  }
}
