/** The code interpreter: contexts that keep the state of a language, and the code that runs in them. */
import { randomUUID } from 'node:crypto'
import { HttpError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import { type Exchange, MOST_CONTENT_BYTES, readJson, sendJson, sendNothing, writePiece } from '../http.js'
import { BashKernel } from '../kernels/bash.js'
import { type Kernel, line } from '../kernels/kernel.js'
import { PythonKernel } from '../kernels/python.js'

const LANGUAGES = {
  python: (hosted: Hosted, cwd: string) => new PythonKernel(hosted, cwd),
  bash: (hosted: Hosted, cwd: string) => new BashKernel(hosted, cwd),
}
type Language = keyof typeof LANGUAGES

interface Context {
  id: string
  language: Language
  cwd: string
  kernel: Kernel
  /** The end of the code that was sent before. */
  last: Promise<unknown>
}

const MOST_CONTEXTS = 256
/** The reply to code that waited in a context which was removed. */
const REMOVED = [
  line({ type: 'error', name: 'ContextRemoved', value: 'the context was removed', traceback: '' }),
  line({ type: 'end_of_execution' }),
].join('')

/** By their ids; the ids of the first contexts are the names of their languages. */
const contexts = new WeakMap<Hosted, Map<string, Context>>()

export async function serveInterpreter(hosted: Hosted, exchange: Exchange): Promise<void> {
  const { request, response, url } = exchange
  const [what, id, action] = url.pathname.split('/').slice(1)
  const route = [request.method, what, id === undefined ? '' : ':id', action].filter(Boolean).join(' ')
  const known = contextsOf(hosted)
  switch (route) {
    case 'POST execute':
      return execute(hosted, exchange)
    case 'GET contexts':
      return sendJson(response, 200, [...known.values()].map(shown))
    case 'POST contexts': {
      const { language, cwd } = await readJson(request)
      return sendJson(response, 201, shown(open(hosted, randomUUID(), language, cwd)))
    }
    case 'DELETE contexts :id': {
      const context = find(known, id)
      known.delete(context.id)
      await context.kernel.end()
      // Code may just have been starting it.
      context.last = context.last.then(() => context.kernel.end()).catch(() => {})
      return sendNothing(response)
    }
    case 'POST contexts :id restart':
      await find(known, id).kernel.end()
      return sendNothing(response)
    default:
      throw new HttpError(404, `there is no route ${request.method} ${url.pathname}`)
  }
}

async function execute(hosted: Hosted, { request, response }: Exchange): Promise<void> {
  const { code, context_id: id, language, env_vars: env } = await readJson(request, MOST_CONTENT_BYTES)
  if (typeof code !== 'string') throw new HttpError(400, 'code must be a string')
  const known = contextsOf(hosted)
  const name = languageOf(language)
  const context =
    typeof id === 'string' ? find(known, id) : (known.get(name) ?? open(hosted, name, name, undefined))
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  // Clients wait for it less long than for the end.
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).flushHeaders()
  const running = context.last.then(async () => {
    if (gone.signal.aborted) return
    if (contexts.get(hosted)?.get(context.id) !== context) return void response.end(REMOVED)
    const given = { code, env: (env ?? {}) as Record<string, string> }
    for await (const lines of context.kernel.run(given, gone.signal)) await writePiece(response, lines)
    response.end()
  })
  context.last = running.catch(() => {})
  await running
}

function contextsOf(hosted: Hosted): Map<string, Context> {
  let known = contexts.get(hosted)
  if (known === undefined) {
    known = new Map()
    contexts.set(hosted, known)
    // A pause ends the kernels.
    hosted.onHalt.add(() => contexts.delete(hosted))
  }
  return known
}

function open(hosted: Hosted, id: string, given: unknown, cwd: unknown): Context {
  const language = languageOf(given)
  const known = contextsOf(hosted)
  if (known.size >= MOST_CONTEXTS) throw new HttpError(429, `a sandbox has at most ${MOST_CONTEXTS} contexts`)
  const directory = hosted.view.resolve(typeof cwd === 'string' ? cwd : '')
  const kernel = LANGUAGES[language](hosted, directory)
  const context = { id, language, cwd: hosted.view.shown(directory), kernel, last: Promise.resolve() }
  known.set(id, context)
  return context
}

function languageOf(given: unknown): Language {
  const name = given === undefined || given === null || given === '' || given === 'python3' ? 'python' : given
  if (typeof name === 'string' && Object.hasOwn(LANGUAGES, name)) return name as Language
  throw new HttpError(501, `nacre runs python and bash, not ${String(given)}`)
}

function find(known: Map<string, Context>, id = ''): Context {
  const context = known.get(id)
  if (context === undefined) throw new HttpError(404, `Context ${id} not found`)
  return context
}

function shown({ id, language, cwd }: Context) {
  return { id, language, cwd }
}
