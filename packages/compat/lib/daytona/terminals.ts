/** Terminals with a login shell, over WebSockets. */
import type { IncomingMessage } from 'node:http'
import type { Process } from 'nacre'
import type { WebSocket } from 'ws'
import { HttpError } from '../failure.js'
import { type Hosted, perRun } from '../hosted.js'
import { type Message, parse, readJson, sendJson, textsOf } from '../http.js'
import { exitCodeOf } from './process.js'
import type { Routes, SocketRoutes } from './routes.js'
import { sendPiece } from './sockets.js'
import { flag, number, optionalText, text } from './values.js'

const MOST_TERMINALS = 256
const MOST_CELLS = 1000
/** A client that reads slowly loses what is older. Most of it is on disk. */
const LOG_BYTES = 16 * 1024 * 1024
/** Protocols by which clients give variables, and want to be sent the exit code. */
const ENV_PROTOCOL = 'X-Daytona-Pty-Envs~'
const EXIT_PROTOCOL = 'X-Daytona-Pty-Exit-Control'
const REASONS: Record<number, string> = { 130: 'Ctrl+C', 137: 'SIGKILL', 143: 'SIGTERM' }

interface Terminal {
  id: string
  cwd: string
  envs: Record<string, string>
  cols: number
  rows: number
  createdAt: string
  lazyStart: boolean
  /** Started at the latest by the first client. */
  process: Promise<Process> | undefined
  /** Later clients get new output only. */
  wasSeen: boolean
}

const terminalsOf = perRun('terminals', { create: () => new Map<string, Terminal>() })

export const terminalRoutes: Routes = {
  'GET /process/pty': ({ hosted, response }) =>
    sendJson(response, 200, { sessions: [...terminalsOf(hosted).values()].map(shown) }),
  'POST /process/pty': async ({ hosted, request, response }) => {
    const given = await readJson(request)
    const { id } = await create(hosted, { ...given, lazyStart: flag(given, 'lazyStart') })
    sendJson(response, 201, { sessionId: id })
  },
  'GET /process/pty/:': ({ hosted, params: [id = ''], response }) =>
    sendJson(response, 200, shown(find(hosted, id))),
  'DELETE /process/pty/:': async ({ hosted, params: [id = ''], response }) => {
    const terminal = find(hosted, id)
    terminalsOf(hosted).delete(id)
    await (await terminal.process)?.kill('SIGKILL')
    sendJson(response, 200, { message: 'the terminal has ended' })
  },
  'POST /process/pty/:/resize': async ({ hosted, params: [id = ''], request, response }) => {
    const size = sizeOf(await readJson(request))
    const terminal = terminalsOf(hosted).get(id)
    if (terminal === undefined) throw new HttpError(410, `the terminal '${id}' has ended`)
    await (await terminal.process)?.resize(size.cols, size.rows)
    sendJson(response, 200, shown(Object.assign(terminal, size)))
  },
}

export const terminalSockets: SocketRoutes = {
  'GET /process/pty/create-connect': async (hosted, query, _, request) => {
    const envs = offered(request).find((name) => name.startsWith(ENV_PROTOCOL))
    const terminal = await create(hosted, {
      ...Object.fromEntries(query),
      envs:
        envs === undefined ? {} : parse(Buffer.from(envs.slice(ENV_PROTOCOL.length), 'base64url').toString()),
    })
    return (client) => attach(hosted, terminal, client, offered(request).includes(EXIT_PROTOCOL))
  },
  'GET /process/pty/:/connect': (hosted, _, [id = ''], request) => {
    const terminal = terminalsOf(hosted).get(id)
    return async (client) => {
      if (terminal !== undefined)
        return attach(hosted, terminal, client, offered(request).includes(EXIT_PROTOCOL))
      await sendControl(client, { status: 'error', error: `there is no terminal '${id}'` })
      client.close(1011)
    }
  },
}

async function create(hosted: Hosted, given: Message): Promise<Terminal> {
  const known = terminalsOf(hosted)
  const id = text(given, 'id')
  if (known.has(id)) throw new HttpError(409, `the terminal '${id}' exists already`)
  if (known.size >= MOST_TERMINALS)
    throw new HttpError(429, `a sandbox has at most ${MOST_TERMINALS} terminals`)
  const terminal: Terminal = {
    id,
    cwd: hosted.view.resolve(optionalText(given, 'cwd') ?? ''),
    envs: { TERM: 'xterm-256color', ...textsOf(given, 'envs') },
    ...sizeOf({ cols: given.cols ?? 80, rows: given.rows ?? 24 }),
    createdAt: new Date().toISOString(),
    lazyStart: flag(given, 'lazyStart'),
    process: undefined,
    wasSeen: false,
  }
  known.set(id, terminal)
  if (!terminal.lazyStart) await start(hosted, terminal)
  return terminal
}

function start(hosted: Hosted, terminal: Terminal): Promise<Process> {
  const known = terminalsOf(hosted)
  const forget = () => {
    if (known.get(terminal.id) === terminal) known.delete(terminal.id)
  }
  const { cwd, envs: env, cols, rows } = terminal
  const options = { cwd, env, pty: { cols, rows }, logLimit: LOG_BYTES }
  terminal.process ??= hosted.sandbox.startProcess(['bash', '-i', '-l'], options)
  terminal.process.then((process) => process.waitForExit().then(forget, forget), forget)
  return terminal.process
}

/** Passes on what the client types and what the terminal prints, until one of them ends. */
async function attach(
  hosted: Hosted,
  terminal: Terminal,
  client: WebSocket,
  wantsExit: boolean,
): Promise<void> {
  const gone = new AbortController()
  client.on('close', () => gone.abort())
  client.pause()
  const process = await start(hosted, terminal)
  client.on('message', (data) => {
    client.pause()
    const resume = () => client.resume()
    process.write(data as Buffer).then(resume, resume)
  })
  client.resume()
  const cursor = terminal.wasSeen ? Number.MAX_SAFE_INTEGER : 0
  terminal.wasSeen = true
  await sendControl(client, { status: 'connected' })
  for await (const event of process.output({ encoding: 'buffer', cursor, signal: gone.signal })) {
    if (event.type !== 'exit') {
      await sendPiece(client, event.data)
      continue
    }
    const exitCode = exitCodeOf(event)
    const exitReason = exitCode === 0 ? undefined : (REASONS[exitCode] ?? `exit code ${exitCode}`)
    const end = { exitCode, exitReason }
    if (wantsExit) await sendControl(client, { status: 'exited', ...end })
    client.close(exitCode === 0 ? 1000 : 1011, JSON.stringify(end))
  }
}

function sendControl(client: WebSocket, message: Message): Promise<boolean> {
  return sendPiece(client, JSON.stringify({ type: 'control', ...message }))
}

function offered({ headers }: IncomingMessage): string[] {
  return (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim())
}

function sizeOf({ cols, rows }: Message) {
  return { cols: number(cols, 'cols', 1, MOST_CELLS), rows: number(rows, 'rows', 1, MOST_CELLS) }
}

function find(hosted: Hosted, id: string): Terminal {
  const terminal = terminalsOf(hosted).get(id)
  if (terminal === undefined) throw new HttpError(404, `there is no terminal '${id}'`)
  return terminal
}

function shown({ process, wasSeen: _, ...terminal }: Terminal) {
  return { ...terminal, active: process !== undefined }
}
