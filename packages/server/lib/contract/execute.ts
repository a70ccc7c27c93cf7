/**
 * Commands, as clients of a sandbox container run them: with a reply at the end, or as events.
 */

import type { Encoding, ExecEvent, ExecResult, LogEvent } from 'nacre'
import { clock, kinds, plans, SandboxError } from 'nacre/internal'
import { replies } from 'nacre/internal/server'
import { eventsOf, runToReply, streamToConnection } from '../bounds.js'
import type { ServerContext } from '../context.js'
import { anyText } from '../parameters.js'
import { type Given, shape } from '../request-json.js'
import { type Define, errorEvent } from '../route.js'
import { events, type ServerEvent } from '../sse.js'
import type { Sendable } from '../wire.js'
import { done, exitCodeOf, givenVariables, now, startedReply, timestamp } from './values.js'

const executeBody = shape(
  {
    command: anyText,
    sessionId: kinds.identifier,
    background: kinds.flag,
    timeoutMs: kinds.milliseconds,
    env: kinds.env,
    cwd: anyText,
    origin: kinds.oneOf(['user', 'internal']),
  },
  ['command'],
  true,
)

type ExecuteBody = Given<typeof executeBody>

const executedReply = replies.reply({
  success: replies.boolean,
  exitCode: replies.number,
  stdout: replies.text,
  stderr: replies.text,
  command: replies.text,
  duration: replies.number,
  timestamp,
  sessionId: replies.text,
})

type Executed = replies.ReplyValue<typeof executedReply>
type Started = replies.ReplyValue<typeof startedReply>

const executeReply: Sendable<Executed | Started> = {
  schema: { anyOf: [executedReply, startedReply] },
  encode: (value, toBase64) =>
    Object.hasOwn(value, 'processId')
      ? startedReply.encode(value as Started, toBase64)
      : executedReply.encode(value as Executed, toBase64),
}

const errors = [
  'INVALID_COMMAND',
  'SESSION_NOT_FOUND',
  'SESSION_TERMINATED',
  'COMMAND_TIMEOUT',
  'COMMAND_EXECUTION_ERROR',
]

export function addExecute(define: Define, server: ServerContext): void {
  const { backend, metrics, processes } = server
  const options = ({ sessionId = 'default', timeoutMs, env, cwd }: ExecuteBody) => ({
    sessionId,
    cwd,
    env: givenVariables(env),
    timeout: timeoutMs ?? server.sessionTimeouts.get(sessionId),
  })
  const start = ({ command, sessionId, timeoutMs, env, cwd }: ExecuteBody) =>
    processes.start(command, { sessionId, cwd, timeout: timeoutMs, env: givenVariables(env) })

  define({
    method: 'POST',
    path: '/api/execute',
    summary: 'Runs a command in a session, or starts it in the background.',
    body: executeBody,
    reply: executeReply,
    errors,
    async handle({ body, signal }) {
      if (body.background) {
        const { id, pid, command } = (await start(body)).info
        return done({ processId: id, pid, command })
      }
      try {
        const running = runToReply(backend, body.command, { ...options(body), signal })
        return executed((await metrics.command(running)) as ExecResult)
      } catch (error) {
        if (isLost(error, body)) return lost(body)
        throw error
      }
    },
  })
  define({
    method: 'POST',
    path: '/api/execute/stream',
    summary:
      'Runs a command and streams its output, as events: start, stdout, stderr, and finally complete or error.',
    body: executeBody,
    reply: 'events',
    errors,
    async handle({ body, signal }) {
      if (body.background) {
        const process = await start(body)
        const { id: processId, pid, command, startTime } = process.info
        const first = { type: 'start', command, pid, processId, timestamp: startTime }
        const begun = clock.performance.now()
        const translate = (event: LogEvent<Encoding>) =>
          event.type === 'exit'
            ? [
                complete(event, {
                  command,
                  duration: clock.performance.now() - begun,
                  timestamp: startTime.toISOString(),
                }),
              ]
            : [outputEvent(event)]
        return events(process.output(plans.planLogStream({ signal }, 'output')), translate, [{ data: first }])
      }
      // The result has no output: the events had it.
      const stream = streamToConnection<'utf8'>(backend, body.command, {
        ...options(body),
        maxBuffer: 0,
        signal,
      })
      const output = eventsOf(stream)
      metrics.command(stream.result).catch(() => {})
      return events(output, (event) => translateEvent(server, event, body))
    },
  })
}

function executed(result: ExecResult): Executed {
  const { success, stdout, stderr, command, duration, timestamp, sessionId } = result
  return {
    success,
    exitCode: exitCodeOf(result),
    stdout,
    stderr,
    command,
    duration,
    timestamp,
    sessionId,
  }
}

function translateEvent(server: ServerContext, event: ExecEvent, body: ExecuteBody): ServerEvent[] {
  const { time, ...rest } = event
  switch (rest.type) {
    case 'start':
      return [{ data: { ...rest, timestamp: time } }]
    case 'stdout':
    case 'stderr':
      return [{ data: { type: rest.type, data: rest.data, timestamp: time } }]
    case 'complete':
      return [complete(rest, rest.result)]
    case 'error':
      return isLost(rest.error, body)
        ? lostEvents(body, time)
        : [{ data: errorEvent(server, rest.error, 'container', { sessionId: body.sessionId ?? 'default' }) }]
  }
}

function outputEvent({ type, data, time }: LogEvent<Encoding> & { data: unknown }): ServerEvent {
  return { data: { type, data, timestamp: time } }
}

/** The events had the output. */
function complete(
  end: { exitCode: number | null; signal: string | null },
  { command, duration, timestamp }: { command: string; duration: number; timestamp: string },
): ServerEvent {
  const exitCode = exitCodeOf(end)
  const success = exitCode === 0
  const result = { stdout: '', stderr: '', exitCode, success, command, duration, timestamp }
  return { data: { type: 'complete', exitCode, result, timestamp: now() } }
}

/** A command whose directory does not exist fails: that is a result, not an error of the request. */
function isLost(error: unknown, { cwd }: ExecuteBody): boolean {
  return cwd !== undefined && error instanceof SandboxError && error.code === 'CWD_NOT_FOUND'
}

function lostEvents(body: ExecuteBody, time: Date): ServerEvent[] {
  const { command, stderr } = lost(body)
  return [
    { data: { type: 'stderr', data: stderr, timestamp: time } },
    complete({ exitCode: 1, signal: null }, { command, duration: 0, timestamp: time.toISOString() }),
  ]
}

function lost({ command, cwd, sessionId = 'default' }: ExecuteBody): Executed {
  return {
    success: false,
    exitCode: 1,
    stdout: '',
    stderr: `Failed to change directory to '${cwd}'\n`,
    command,
    duration: 0,
    timestamp: now(),
    sessionId,
  }
}
