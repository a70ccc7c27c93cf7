/**
 * Sessions and their variables, as clients of a sandbox container know them.
 */

import type { SessionOptions } from 'nacre'
import { env, isCode, milliseconds, readArgument, readOptions } from 'nacre/internal'
import {
  type Backend,
  DEFAULT_SESSION,
  identifier,
  list,
  os,
  ownOnly,
  reply,
  setEnv,
  tables,
  text,
  yes,
} from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { anyText } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { done, doneReply, timestamp } from './values.js'

const createMembers = { id: identifier, env, cwd: anyText, commandTimeoutMs: milliseconds }

export function addSessions(define: Define, { backend, sessionTimeouts }: ServerContext): void {
  define({
    method: 'POST',
    path: '/api/session/create',
    summary: 'Creates a session.',
    body: shape(createMembers, [], true),
    reply: reply({ success: yes, data: reply({ id: text }), timestamp }),
    errors: ['SESSION_ALREADY_EXISTS'],
    async handle({ body: { id, env, cwd, commandTimeoutMs } }) {
      const sessionId = await createAnywhere(backend, { id, env, cwd })
      if (commandTimeoutMs === undefined) sessionTimeouts.delete(sessionId)
      else sessionTimeouts.set(sessionId, commandTimeoutMs)
      return done({ data: { id: sessionId } })
    },
  })
  define({
    method: 'GET',
    path: '/api/session/list',
    summary: 'Lists the ids of the sessions.',
    reply: reply({ success: yes, data: list(text), timestamp }),
    async handle() {
      return done({ data: await backend.listSessions() })
    },
  })
  define({
    method: 'POST',
    path: '/api/session/delete',
    summary: 'Deletes a session and kills everything in it.',
    body: shape({ sessionId: identifier }, ['sessionId'], true),
    reply: reply({ success: yes, sessionId: text, timestamp }),
    errors: ['SESSION_NOT_FOUND'],
    async handle({ body: { sessionId } }) {
      await backend.deleteSession(sessionId)
      sessionTimeouts.delete(sessionId)
      return done({ sessionId })
    },
  })
  define({
    method: 'POST',
    path: '/api/env/set',
    summary: 'Sets variables of a session. A null value unsets the variable.',
    body: shape({ envVars: env, sessionId: identifier }, ['envVars'], true),
    reply: doneReply,
    errors: ['SESSION_NOT_FOUND'],
    async handle({ body: { envVars, sessionId = DEFAULT_SESSION } }) {
      await setEnv(backend, sessionId, envVars)
      return done({})
    },
  })
}

/** A session whose directory is missing starts in the home directory. */
async function createAnywhere(backend: Backend, options: SessionOptions): Promise<string> {
  const values = readOptions(tables.sessionOptions, options, 'createSession')
  try {
    return await backend.createSession(values)
  } catch (error) {
    if (!isCode(error, 'CWD_NOT_FOUND') || values.cwd === undefined) throw error
    const cwd = readArgument(tables.sessionOptions.cwd.read, os.homedir(), 'cwd')
    return backend.createSession(ownOnly({ ...values, cwd }))
  }
}
