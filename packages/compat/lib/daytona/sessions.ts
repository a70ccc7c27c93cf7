/** Sessions: shells that keep their state, and run commands one after the other. */
import { randomUUID } from 'node:crypto'
import type { ExecStream, Session } from 'nacre'
import { isCode } from 'nacre/internal'
import type { WebSocket } from 'ws'
import { HttpError } from '../failure.js'
import { type Hosted, perRun } from '../hosted.js'
import { MOST_CONTENT_BYTES, readJson, sendJson, sendNothing } from '../http.js'
import { type Log, Logs, type Output } from './log.js'
import { exitCodeOf } from './process.js'
import type { Routes, SocketRoutes } from './routes.js'
import { sendPiece } from './sockets.js'
import { flag, optionalText, text } from './values.js'

const MOST_SESSIONS = 256
/** The oldest that have ended are forgotten. */
const MOST_COMMANDS = 1000
/** Of a command that is kept for lists. */
const MOST_CHARACTERS = 1000
/** Of the output in one reply. The oldest is left out; following a log sends all that is kept. */
const MOST_REPLY_BYTES = 8 * 1024 * 1024
/** The SDK in JavaScript spreads each message over arguments. */
const MESSAGE_BYTES = 16 * 1024
/** What each message begins with. */
const MARKS = { stdout: Buffer.from([1, 1, 1]), stderr: Buffer.from([2, 2, 2]) }
/** What a sandbox of Daytona starts with. There is none here, and clients may ask for it. */
const ENTRYPOINT = 'entrypoint'

interface Command {
  id: string
  /** Its beginning. */
  command: string
  log: Log
  /** Undefined once it has ended. */
  stream: ExecStream<'buffer'> | undefined
  isAsync: boolean
  echoes: boolean
  exitCode: number | undefined
  ended: Promise<void>
}

interface Own {
  id: string
  shell: Session
  commands: Map<string, Command>
  /** It goes on from before a stop, and no client has used it since. */
  isIdle: boolean
}

interface Sessions {
  /** By their ids. Undefined for those that are starting. */
  all: Map<string, Own | undefined>
  logs: Logs
}

/** The ids of a session and of its shell. */
type KeptSession = [id: string, shell: string]

const sessionsOf = perRun<Sessions, KeptSession[]>('sessions', {
  create({ shells }, kept = []) {
    const all: Sessions['all'] = new Map()
    for (const [id, shellId] of kept) {
      const shell = shells.get(shellId)
      if (shell !== undefined) all.set(id, { id, shell, commands: new Map(), isIdle: true })
    }
    return { all, logs: new Logs() }
  },
  keep: ({ all }) => [...all].flatMap(([id, own]): KeptSession[] => (own ? [[id, own.shell.id]] : [])),
})

export const sessionRoutes: Routes = {
  'GET /process/session': ({ hosted, response }) => {
    const known = [...sessionsOf(hosted).all.values()].filter((own) => own !== undefined)
    sendJson(response, 200, known.map(shown))
  },
  'POST /process/session': async ({ hosted, request, response }) => {
    const id = text(await readJson(request), 'sessionId')
    if (id === ENTRYPOINT) throw new HttpError(400, `the session ${ENTRYPOINT} is reserved`)
    await openSession(hosted, id)
    sendNothing(response, 201)
  },
  'GET /process/session/:': ({ hosted, params: [id = ''], response }) =>
    sendJson(response, 200, id === ENTRYPOINT ? { sessionId: id, commands: [] } : shown(find(hosted, id))),
  'DELETE /process/session/:': async ({ hosted, params: [id = ''], response }) => {
    const own = find(hosted, id)
    const { all, logs } = sessionsOf(hosted)
    all.delete(id)
    await own.shell.delete().catch((error) => {
      if (!isCode(error, 'SESSION_NOT_FOUND')) throw error
    })
    for (const { log } of own.commands.values()) logs.forget(log)
    sendNothing(response)
  },
  'GET /process/session/entrypoint/logs': ({ response }) =>
    sendJson(response, 200, { output: '', stdout: '', stderr: '' }),
  'POST /process/session/:/exec': async ({ hosted, params: [id = ''], request, response }) => {
    const own = find(hosted, id)
    own.isIdle = false
    const given = await readJson(request)
    const isAsync = flag(given, 'runAsync') || flag(given, 'async')
    const run = start(hosted, own, text(given, 'command'), isAsync, !flag(given, 'suppressInputEcho'))
    if (isAsync) return sendJson(response, 202, { cmdId: run.id })
    await run.ended
    sendJson(response, 200, { cmdId: run.id, ...logsOf(run), exitCode: run.exitCode })
  },
  'GET /process/session/:/command/:': ({ hosted, params: [id = '', command = ''], response }) =>
    sendJson(response, 200, described(findCommand(hosted, id, command))),
  'GET /process/session/:/command/:/logs': ({ hosted, params: [id = '', command = ''], response }) =>
    sendJson(response, 200, logsOf(findCommand(hosted, id, command))),
  'POST /process/session/:/command/:/input': async ({
    hosted,
    params: [id = '', command = ''],
    request,
    response,
  }) => {
    const run = findCommand(hosted, id, command)
    const data = optionalText(await readJson(request, MOST_CONTENT_BYTES), 'data') ?? ''
    await type(run, data.endsWith('\n') ? data : `${data}\n`)
    sendNothing(response)
  },
}

export const sessionSockets: SocketRoutes = {
  'GET /process/session/entrypoint/logs': () => (client) => client.close(1000),
  'GET /process/session/:/command/:/logs': (hosted, query, [id = '', command = '']) => {
    const { log } = findCommand(hosted, id, command)
    return (client) => followLog(client, log, query.get('follow') === 'true')
  },
}

/** Sends the log of a command as messages, until it ends. */
async function followLog(client: WebSocket, log: Log, isFollowed: boolean): Promise<void> {
  const gone = new AbortController()
  client.on('close', () => gone.abort())
  for await (const { stream, data } of log.read(isFollowed, gone.signal))
    for (let at = 0; at < data.length; at += MESSAGE_BYTES)
      if (!(await sendPiece(client, Buffer.concat([MARKS[stream], data.subarray(at, at + MESSAGE_BYTES)]))))
        return
  client.close(1000)
}

async function openSession(hosted: Hosted, id: string): Promise<void> {
  const { all } = sessionsOf(hosted)
  if (all.has(id) && !all.get(id)?.isIdle) throw new HttpError(409, `the session '${id}' exists already`)
  const replaced = all.get(id) ?? (all.size < MOST_SESSIONS ? undefined : oldestIdle(all))
  if (replaced !== undefined) all.delete(replaced.id)
  if (all.size >= MOST_SESSIONS) throw new HttpError(429, `a sandbox has at most ${MOST_SESSIONS} sessions`)
  all.set(id, undefined)
  try {
    await replaced?.shell.delete()
    all.set(id, {
      id,
      shell: await hosted.sandbox.createSession({ env: hosted.record.env }),
      commands: new Map(),
      isIdle: false,
    })
  } catch (error) {
    all.delete(id)
    throw error
  }
}

/** Clients of Daytona have no sessions after a stop, and create others. */
function oldestIdle(all: Sessions['all']): Own | undefined {
  return [...all.values()].find((own) => own?.isIdle)
}

function start(hosted: Hosted, own: Own, command: string, isAsync: boolean, echoes: boolean): Command {
  const { logs } = sessionsOf(hosted)
  makeRoom(own, logs)
  const log = logs.open()
  const input = isAsync ? { input: 'pipe' as const } : {}
  const stream = own.shell.execStream(command, { encoding: 'buffer', maxBuffer: 0, ...input })
  const run: Command = {
    id: randomUUID(),
    // A copy: the beginning of a string keeps the whole string.
    command: Buffer.from(command.slice(0, MOST_CHARACTERS)).toString(),
    log,
    stream,
    isAsync,
    echoes,
    exitCode: undefined,
    ended: Promise.resolve(),
  }
  run.ended = record(run, stream)
  own.commands.set(run.id, run)
  return run
}

/** Keeps the output until the end. Never rejects. */
async function record(run: Command, stream: ExecStream<'buffer'>): Promise<void> {
  const { log } = run
  try {
    for await (const event of stream) {
      if (event.type === 'stdout' || event.type === 'stderr') log.add(event.type, Buffer.from(event.data))
      else if (event.type === 'complete') run.exitCode = exitCodeOf(event)
      else if (event.type === 'error') throw event.error
    }
  } catch (error) {
    run.exitCode = 1
    log.add('stderr', Buffer.from(`${(error as Error).message}\n`))
  }
  run.stream = undefined
  log.end()
}

function makeRoom({ commands }: Own, logs: Logs): void {
  if (commands.size < MOST_COMMANDS) return
  const ended = [...commands.values()].find(({ exitCode }) => exitCode !== undefined)
  if (ended === undefined)
    throw new HttpError(429, `a session has at most ${MOST_COMMANDS} commands that have not ended`)
  commands.delete(ended.id)
  logs.forget(ended.log)
}

async function type(run: Command, data: string): Promise<void> {
  const { stream } = run
  if (run.exitCode !== undefined || stream === undefined) throw ended(run)
  if (!run.isAsync) throw new HttpError(400, 'only a command with runAsync has input')
  if (run.echoes) run.log.add('stdout', Buffer.from(data))
  try {
    await stream.write(data)
  } catch (error) {
    throw isCode(error, 'INPUT_CLOSED') ? ended(run) : error
  }
}

function ended({ exitCode = 0 }: Command): HttpError {
  const message = `the command has already ended, with exit code ${exitCode}`
  return new HttpError(410, message, 'COMMAND_ALREADY_COMPLETED')
}

function find(hosted: Hosted, id: string): Own {
  const own = sessionsOf(hosted).all.get(id)
  if (own === undefined) throw new HttpError(404, `there is no session '${id}'`)
  return own
}

function findCommand(hosted: Hosted, session: string, id: string): Command {
  const command = find(hosted, session).commands.get(id)
  if (command === undefined) throw new HttpError(404, `there is no command '${id}'`)
  return command
}

function shown({ id, commands }: Own) {
  return { sessionId: id, commands: [...commands.values()].map(described) }
}

function described({ id, command, exitCode }: Command) {
  return { id, command, ...(exitCode === undefined ? {} : { exitCode }) }
}

function logsOf({ log }: Command) {
  const outputs = log.newest(MOST_REPLY_BYTES)
  const textOf = (some: Output[]) => Buffer.concat(some.map(({ data }) => data)).toString('utf8')
  const ofStream = (name: Output['stream']) => textOf(outputs.filter(({ stream }) => stream === name))
  return { output: textOf(outputs), stdout: ofStream('stdout'), stderr: ofStream('stderr') }
}
