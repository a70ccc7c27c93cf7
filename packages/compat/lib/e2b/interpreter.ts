/** The code interpreter: contexts that keep the state of a language, and the code that runs in them. */
import { randomUUID } from 'node:crypto'
import { type Context, contextsOf, type Language } from '../contexts.js'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Exchange, MOST_CONTENT_BYTES, readJson, sendJson, sendNothing, writePiece } from '../http.js'
import { line } from '../kernels/kernel.js'

/** The reply to code that waited in a context which was removed. */
const REMOVED = [
  line({ type: 'error', name: 'ContextRemoved', value: 'the context was removed', traceback: '' }),
  line({ type: 'end_of_execution' }),
].join('')

/** The ids of the first contexts are the names of their languages. */
export async function serveInterpreter(hosted: Hosted, exchange: Exchange): Promise<void> {
  const { request, response, url } = exchange
  const [what, id = '', action] = url.pathname.split('/').slice(1)
  const route = [request.method, what, id && ':id', action].filter(Boolean).join(' ')
  const contexts = contextsOf(hosted)
  switch (route) {
    case 'POST execute':
      return execute(hosted, exchange)
    case 'GET contexts':
      return sendJson(response, 200, contexts.list().map(shown))
    case 'POST contexts': {
      const { language, cwd } = await readJson(request)
      const directory = typeof cwd === 'string' ? cwd : ''
      return sendJson(response, 201, shown(contexts.open(randomUUID(), languageOf(language), directory)))
    }
    case 'DELETE contexts :id':
      await contexts.remove(id)
      return sendNothing(response)
    case 'POST contexts :id restart':
      await contexts.find(id).kernel.end()
      return sendNothing(response)
    default:
      throw new HttpError(404, `there is no route ${request.method} ${url.pathname}`)
  }
}

async function execute(hosted: Hosted, { request, response }: Exchange): Promise<void> {
  const { code, context_id: id, language, env_vars: env } = await readJson(request, MOST_CONTENT_BYTES)
  if (typeof code !== 'string') throw new HttpError(400, 'code must be a string')
  const contexts = contextsOf(hosted)
  const name = languageOf(language)
  const context =
    typeof id === 'string' ? contexts.find(id) : (contexts.get(name) ?? contexts.open(name, name))
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  // Clients wait for it less long than for the end.
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
  await contexts.inTurn(context, async (isRemoved) => {
    if (gone.signal.aborted) return
    if (isRemoved) return void response.end(REMOVED)
    const given = { code, env: (env ?? {}) as Record<string, string> }
    for await (const lines of context.kernel.run(given, gone.signal)) await writePiece(response, lines)
    response.end()
  })
}

function languageOf(given: unknown): Language {
  if (given === undefined || given === null || given === '' || given === 'python3') return 'python'
  if (given === 'python' || given === 'bash') return given
  throw new HttpError(501, `nacre runs python and bash, not ${String(given)}`)
}

function shown({ id, language, cwd }: Context) {
  return { id, language, cwd }
}
