/** The code interpreter: contexts of Python that keep their state. */

import { randomUUID } from 'node:crypto'
import { clock } from 'nacre/internal'
import type { WebSocket } from 'ws'
import { type Context, contextsOf } from '../contexts.js'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Message, parse, readJson, sendJson, sendNothing, textsOf, timeoutOf } from '../http.js'
import { daytonaError } from './failure.js'
import type { Routes, SocketRoutes } from './routes.js'
import { sendPiece } from './sockets.js'
import { optionalText, text } from './values.js'

/** The context of code that names none. It is not listed. */
const DEFAULT = 'default'
/** The SDKs know the end of the time by it. */
const TIMEOUT_CODE = 4008
const FAILURE_CODE = 1011
/** In the message of a close, which has at most 123 bytes. */
const MOST_CLOSE_CHARACTERS = 40
const SENT = ['stdout', 'stderr', 'error']

export const interpreterRoutes: Routes = {
  'GET /process/interpreter/context': ({ hosted, response }) => {
    const known = contextsOf(hosted)
      .list()
      .filter(({ id }) => id !== DEFAULT)
    sendJson(response, 200, { contexts: known.map(shown) })
  },
  'POST /process/interpreter/context': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const language = optionalText(given, 'language') ?? 'python'
    if (language !== 'python') throw new HttpError(501, `nacre interprets python, not ${language}`)
    sendJson(
      response,
      200,
      shown(contextsOf(hosted).open(randomUUID(), language, optionalText(given, 'cwd'))),
    )
  },
  'DELETE /process/interpreter/context/:': async ({ hosted, params: [id = ''], response }) => {
    await contextsOf(hosted).remove(id)
    sendNothing(response)
  },
}

export const interpreterSockets: SocketRoutes = {
  'GET /process/interpreter/execute': (hosted) => async (client) => {
    try {
      const message = await firstMessage(client)
      if (message !== undefined) await execute(hosted, client, parse(message))
    } catch (error) {
      client.close(FAILURE_CODE, daytonaError(error).message.slice(0, MOST_CLOSE_CHARACTERS))
    }
  },
}

/** Undefined when the client leaves before. */
function firstMessage(client: WebSocket): Promise<string | undefined> {
  return new Promise((resolve) => {
    client.once('message', (data) => resolve(String(data)))
    client.once('close', () => resolve(undefined))
  })
}

/** Sends the output of the code as messages, after the code that was sent before. */
async function execute(hosted: Hosted, client: WebSocket, given: Message): Promise<void> {
  const code = { code: text(given, 'code'), env: textsOf(given, 'envs') }
  const timeout = timeoutOf(given.timeout ?? 0)
  const id = optionalText(given, 'contextId') ?? DEFAULT
  const contexts = contextsOf(hosted)
  const isNew = id === DEFAULT && contexts.get(id) === undefined
  const context = isNew ? contexts.open(id, 'python') : contexts.find(id)
  const ending = new AbortController()
  client.once('close', () => ending.abort())
  await contexts.inTurn(context, async () => {
    contexts.find(id)
    let isLate = false
    const end = () => {
      isLate = true
      ending.abort()
    }
    const timer = timeout > 0 ? clock.setTimeout(end, timeout) : undefined
    try {
      for await (const lines of context.kernel.run(code, ending.signal))
        for (const line of lines.trim().split('\n'))
          if (SENT.includes((JSON.parse(line) as { type: string }).type)) await sendPiece(client, line)
    } finally {
      clock.clearTimeout(timer)
    }
    if (isLate) return client.close(TIMEOUT_CODE, 'the code ran longer than its timeout')
    await sendPiece(client, JSON.stringify({ type: 'control', text: 'completed' }))
    client.close(1000)
  })
}

function shown({ id, language, createdAt, cwd }: Context) {
  return { id, language, cwd, createdAt, active: true }
}
