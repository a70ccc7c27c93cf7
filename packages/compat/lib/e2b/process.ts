/** The service `process.Process` of envd. */
import type { LogExit, Process } from 'nacre'
import { isCode, kinds } from 'nacre/internal'
import { RpcError } from '../failure.js'
import type { Hosted, HostedProcess } from '../hosted.js'
import { type Message, MOST_CONTENT_BYTES } from '../http.js'
import { innerPid } from '../inner-pid.js'
import { type Call, type Method, messageOf, numberOf, textOf } from './connect.js'
import { keepAlive } from './keep-alive.js'

/** Bytes of output in one message. */
const PIECE_BYTES = 32 * 1024
/** A client that reads slowly loses what is older. Most of it is on disk. */
const LOG_BYTES = 256 * 1024 * 1024
/** SIGTERM alone: programs may ignore it. */
const NEVER_FORCED = { forceKillAfterDelay: kinds.MAX_MILLISECONDS }
const DEFAULT_SIZE = { cols: 80, rows: 24 }

export const processMethods: Record<string, Method> = {
  List: {
    kind: 'unary',
    run: (_, { hosted }) => ({
      processes: [...hosted.processes.values()].map(({ config, pid, tag }) => ({ config, pid, tag })),
    }),
  },
  Start: {
    kind: 'replies',
    async *run(input, call) {
      yield* follow(await start(input, call), 0, call)
    },
  },
  Connect: {
    kind: 'replies',
    async *run(input, call) {
      const known = select(input, call.hosted)
      known.followers += 1
      // New output only.
      yield* follow(known, Number.MAX_SAFE_INTEGER, call)
    },
  },
  Update: {
    kind: 'unary',
    async run(input, { hosted }) {
      const known = select(input, hosted)
      const pty = messageOf(input, 'pty')
      if (pty === undefined) return {}
      if (!known.isTerminal) throw new RpcError('internal', 'the process has no terminal to resize')
      const { cols, rows } = sizeOf(pty)
      await known.process.resize(cols, rows)
      return {}
    },
  },
  SendInput: {
    kind: 'unary',
    most: MOST_CONTENT_BYTES,
    async run(input, { hosted }) {
      await write(select(input, hosted), messageOf(input, 'input'))
      return {}
    },
  },
  StreamInput: {
    kind: 'inputs',
    async run(inputs, { hosted }) {
      let known: HostedProcess | undefined
      for await (const input of inputs) {
        const first = messageOf(input, 'start')
        const data = messageOf(input, 'data')
        if (first !== undefined) known = select(first, hosted)
        else if (data !== undefined) {
          if (known === undefined) throw new RpcError('invalid_argument', 'the first message must be `start`')
          await write(known, messageOf(data, 'input'))
        }
      }
      return {}
    },
  },
  CloseStdin: {
    kind: 'unary',
    async run(input, { hosted }) {
      const known = select(input, hosted)
      if (known.isTerminal) throw new RpcError('unknown', 'the input of a terminal cannot be closed')
      await known.process.closeInput()
      return {}
    },
  },
  SendSignal: {
    kind: 'unary',
    async run(input, { hosted }) {
      const { process } = select(input, hosted)
      const { signal } = input
      if (signal === 'SIGNAL_SIGKILL' || signal === 9) await process.kill('SIGKILL')
      else if (signal === 'SIGNAL_SIGTERM' || signal === 15)
        // It resolves at the end of the process, which may never come.
        process.kill('SIGTERM', NEVER_FORCED).catch(() => {})
      else throw new RpcError('unimplemented', `the signal ${JSON.stringify(signal)} is not supported`)
      return {}
    },
  },
}

async function start(input: Message, { hosted, headers }: Call): Promise<HostedProcess> {
  const given = messageOf(input, 'process') ?? {}
  const cmd = textOf(given, 'cmd')
  const { args = [], envs = {} } = given as { args?: string[]; envs?: Record<string, string> }
  const cwd = textOf(given, 'cwd')
  const pty = messageOf(input, 'pty')
  const hasInput = pty !== undefined || input.stdin !== false
  let process: Process
  try {
    process = await hosted.sandbox.startProcess([cmd, ...args], {
      cwd: hosted.view.resolve(cwd),
      env: envs,
      timeout: Number(headers['connect-timeout-ms'] ?? 0),
      logLimit: LOG_BYTES,
      ...(pty === undefined ? hasInput && { input: 'pipe' as const } : { pty: sizeOf(pty) }),
    })
  } catch (error) {
    if (isCode(error, 'CWD_NOT_FOUND')) throw new RpcError('invalid_argument', `cwd '${cwd}' does not exist`)
    throw error
  }
  const known: HostedProcess = {
    process,
    pid: innerPid(process.pid),
    config: { cmd, args, envs, ...(cwd === '' ? {} : { cwd }) },
    tag: textOf(input, 'tag') || undefined,
    isTerminal: pty !== undefined,
    hasInput,
    // The reply to this call.
    followers: 1,
  }
  hosted.processes.set(known.pid, known)
  const forget = () => {
    if (hosted.processes.get(known.pid) === known) hosted.processes.delete(known.pid)
    forgetUnread(hosted, known)
  }
  process.waitForExit().then(forget, forget)
  return known
}

/** Drops the log of a process that has ended when nothing reads it any more. */
function forgetUnread(hosted: Hosted, { process, followers }: HostedProcess): void {
  if (followers === 0 && process.status !== 'running') hosted.forget(process)
}

function select(input: Message, hosted: Hosted): HostedProcess {
  const selector = messageOf(input, 'process') ?? {}
  const tag = textOf(selector, 'tag')
  const pid = numberOf(selector, 'pid')
  const known =
    tag === ''
      ? hosted.processes.get(pid)
      : [...hosted.processes.values()].find((process) => process.tag === tag)
  if (known !== undefined) return known
  const name = tag === '' ? `the pid ${pid}` : `the tag '${tag}'`
  throw new RpcError('not_found', `there is no process with ${name}`)
}

async function write(known: HostedProcess, input: Message = {}): Promise<void> {
  const [name] = Object.keys(input)
  if (name !== 'stdin' && name !== 'pty')
    throw new RpcError('unimplemented', 'the input must be stdin or pty')
  if ((name === 'pty') !== known.isTerminal)
    throw new RpcError(
      'internal',
      known.isTerminal ? 'the process has a terminal: send pty' : 'the process has no terminal: send stdin',
    )
  if (!known.hasInput) throw new RpcError('internal', 'the standard input of the process is closed')
  try {
    await known.process.write(Buffer.from(textOf(input, name), 'base64'))
  } catch (error) {
    throw new RpcError('internal', `the input cannot be written: ${(error as Error).message}`)
  }
}

function sizeOf(pty: Message) {
  const size = messageOf(pty, 'size') ?? {}
  return {
    cols: numberOf(size, 'cols') || DEFAULT_SIZE.cols,
    rows: numberOf(size, 'rows') || DEFAULT_SIZE.rows,
  }
}

/**
 * The output from a cursor on, and the end. While there is none, messages show that the server is alive. The process counts
 * this reply as a follower already.
 */
async function* follow(
  known: HostedProcess,
  cursor: number,
  { hosted, headers, gone }: Call,
): AsyncGenerator<object> {
  const { process, pid, isTerminal } = known
  try {
    yield { event: { start: { pid } } }
    const events = process.output({ encoding: 'buffer', cursor, signal: gone })
    for await (const event of keepAlive(events, headers)) {
      if (event === 'ping') {
        yield { event: { keepalive: {} } }
        continue
      }
      if (event.missing !== undefined)
        throw new RpcError('data_loss', `${event.missing} bytes of output were dropped`)
      if (event.type === 'exit') {
        yield { event: { end: endOf(event) } }
        return
      }
      const stream = isTerminal ? 'pty' : event.type
      for (let at = 0; at < event.data.length; at += PIECE_BYTES) {
        const piece = Buffer.from(event.data.subarray(at, at + PIECE_BYTES))
        yield { event: { data: { [stream]: piece.toString('base64') } } }
      }
    }
  } finally {
    known.followers -= 1
    forgetUnread(hosted, known)
  }
}

/** As Go describes signals. */
const SIGNALS: Record<string, string> = {
  SIGABRT: 'aborted',
  SIGHUP: 'hangup',
  SIGINT: 'interrupt',
  SIGKILL: 'killed',
  SIGQUIT: 'quit',
  SIGSEGV: 'segmentation fault',
  SIGTERM: 'terminated',
}

function endOf({ exitCode, signal, reason }: LogExit) {
  if (reason === 'timeout')
    throw new RpcError('deadline_exceeded', 'the command ran longer than its timeout, and was killed')
  if (exitCode === null) {
    const status = `signal: ${SIGNALS[signal ?? ''] ?? signal}`
    return { exitCode: -1, exited: false, status, error: status }
  }
  const status = `exit status ${exitCode}`
  return { exitCode, exited: true, status, ...(exitCode === 0 ? {} : { error: status }) }
}
