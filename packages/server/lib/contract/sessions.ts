/**
 * Sessions and their variables, as clients of a sandbox container know them.
 */

import type { SessionOptions } from 'nacre'
import { isCode, kinds, plans } from 'nacre/internal'
import { type backends, os, ownOnly, replies, setEnv, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { anyText } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { done, doneReply, timestamp } from './values.js'

const createMembers = {
  id: kinds.identifier,
  env: kinds.env,
  cwd: anyText,
  commandTimeoutMs: kinds.milliseconds,
}

export function addSessions(define: Define, { backend, sessionTimeouts }: ServerContext): void {
  define({
    method: 'POST',
    path: '/api/session/create',
    summary: 'Creates a session.',
    body: shape(createMembers, [], true),
    reply: replies.reply({ success: replies.yes, data: replies.reply({ id: replies.text }), timestamp }),
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
    reply: replies.reply({ success: replies.yes, data: replies.list(replies.text), timestamp }),
    async handle() {
      return done({ data: await backend.listSessions() })
    },
  })
  define({
    method: 'POST',
    path: '/api/session/delete',
    summary: 'Deletes a session and kills everything in it.',
    body: shape({ sessionId: kinds.identifier }, ['sessionId'], true),
    reply: replies.reply({ success: replies.yes, sessionId: replies.text, timestamp }),
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
    body: shape({ envVars: kinds.env, sessionId: kinds.identifier }, ['envVars'], true),
    reply: doneReply,
    errors: ['SESSION_NOT_FOUND'],
    async handle({ body: { envVars, sessionId = plans.DEFAULT_SESSION } }) {
      await setEnv(backend, sessionId, envVars)
      return done({})
    },
  })
}

/** A session whose directory is missing starts in the home directory. */
async function createAnywhere(backend: backends.Backend, options: SessionOptions): Promise<string> {
  const values = kinds.readOptions(tables.sessionOptions, options, 'createSession')
  try {
    return await backend.createSession(values)
  } catch (error) {
    if (!isCode(error, 'CWD_NOT_FOUND') || values.cwd === undefined) throw error
    const cwd = kinds.readArgument(tables.sessionOptions.cwd.read, os.homedir(), 'cwd')
    return backend.createSession(ownOnly({ ...values, cwd }))
  }
}
