/** The code interpreter: contexts of Python that keep their state. */

import { randomUUID } from 'node:crypto'
import { clearTimeout, setTimeout } from 'nacre/internal'
import type { WebSocket } from 'ws'
import { HttpError } from '../failure.js'
import { type Hosted, perRun } from '../hosted.js'
import { type Message, parse, readJson, sendJson, sendNothing, textsOf, timeoutOf } from '../http.js'
import { PythonKernel } from '../kernels/python.js'
import { daytonaError } from './failure.js'
import type { Routes, SocketRoutes } from './routes.js'
import { sendPiece } from './sockets.js'
import { optionalText, text } from './values.js'

const MOST_CONTEXTS = 256
/** The context of code that names none. It is not listed. */
const DEFAULT = 'default'
/** The SDKs know the end of the time by it. */
const TIMEOUT_CODE = 4008
const FAILURE_CODE = 1011
/** In the message of a close, which has at most 123 bytes. */
const MOST_CLOSE_CHARACTERS = 40
const SENT = ['stdout', 'stderr', 'error']

interface Context {
  id: string
  cwd: string
  createdAt: string
  kernel: PythonKernel
  /** The end of the code that was sent before. */
  last: Promise<unknown>
}

const contextsOf = perRun(() => new Map<string, Context>())

export const interpreterRoutes: Routes = {
  'GET /process/interpreter/context': ({ hosted, response }) => {
    const known = [...contextsOf(hosted).values()].filter(({ id }) => id !== DEFAULT)
    sendJson(response, 200, { contexts: known.map(shown) })
  },
  'POST /process/interpreter/context': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const language = optionalText(given, 'language') ?? 'python'
    if (language !== 'python') throw new HttpError(501, `nacre interprets python, not ${language}`)
    sendJson(response, 200, shown(open(hosted, randomUUID(), optionalText(given, 'cwd') ?? '')))
  },
  'DELETE /process/interpreter/context/:': async ({ hosted, params: [id = ''], response }) => {
    const context = find(hosted, id)
    contextsOf(hosted).delete(id)
    await context.kernel.end()
    // Code may just have been starting it.
    context.last = context.last.then(() => context.kernel.end()).catch(() => {})
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
  const known = contextsOf(hosted)
  const context = id === DEFAULT && !known.has(id) ? open(hosted, id, '') : find(hosted, id)
  const ending = new AbortController()
  client.once('close', () => ending.abort())
  const running = context.last.then(async () => {
    find(hosted, id)
    let isLate = false
    const end = () => {
      isLate = true
      ending.abort()
    }
    const timer = timeout > 0 ? setTimeout(end, timeout) : undefined
    try {
      for await (const lines of context.kernel.run(code, ending.signal))
        for (const line of lines.trim().split('\n'))
          if (SENT.includes((JSON.parse(line) as { type: string }).type)) await sendPiece(client, line)
    } finally {
      clearTimeout(timer)
    }
    if (isLate) return client.close(TIMEOUT_CODE, 'the code ran longer than its timeout')
    await sendPiece(client, JSON.stringify({ type: 'control', text: 'completed' }))
    client.close(1000)
  })
  context.last = running.catch(() => {})
  await running
}

function open(hosted: Hosted, id: string, given: string): Context {
  const known = contextsOf(hosted)
  if (known.size >= MOST_CONTEXTS) throw new HttpError(429, `a sandbox has at most ${MOST_CONTEXTS} contexts`)
  const cwd = hosted.view.resolve(given)
  const kernel = new PythonKernel(hosted, cwd)
  const context = { id, cwd, createdAt: new Date().toISOString(), kernel, last: Promise.resolve() }
  known.set(id, context)
  return context
}

function find(hosted: Hosted, id: string): Context {
  const context = contextsOf(hosted).get(id)
  if (context === undefined) throw new HttpError(404, `there is no context ${id}`)
  return context
}

function shown({ id, createdAt, cwd }: Context) {
  return { id, language: 'python', cwd, createdAt, active: true }
}
