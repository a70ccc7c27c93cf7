/**
 * Commands with all features of nacre: bytes, input, both kinds of kill, and the whole result.
 */

import type { Encoding, ExecEvent, ExecResult, WaitEnd } from 'nacre'
import { kinds } from 'nacre/internal'
import { endpoints, type NamedProcess, processIo, protocol, resultOf, tables } from 'nacre/internal/server'
import { eventsOf, runToReply, streamToConnection } from '../bounds.js'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { openInput, withInput } from '../open-input.js'
import { shape } from '../request-json.js'
import { type Define, errorEvent } from '../route.js'
import { events, type ServerEvent } from '../sse.js'
import { encodeData, encodeReply } from '../wire.js'

const { logLimit, ...execMembers } = { command: kinds.command, ...described(tables.execOptions) }

const streamMembers = {
  ...execMembers,
  logLimit,
  openInput,
  byteEvents: { ...kinds.flag, description: 'Sends output events as bytes, for any encoding of the result.' },
  wholeResult: {
    ...kinds.flag,
    description: 'Keeps as much output in the result as /v1/exec. Default: at most 1 MiB of each stream.',
  },
}

const errors = [
  'HELD',
  'CWD_NOT_FOUND',
  'TERMINAL_UNAVAILABLE',
  'SESSION_NOT_FOUND',
  'SESSION_TERMINATED',
  'ROLLED_BACK',
  'COMMAND_TIMEOUT',
  'COMMAND_FAILED',
  'OUTPUT_LIMIT',
  'ABORT_ERR',
]

export function addExec(define: Define, server: ServerContext): void {
  const { backend, metrics, processes, runs } = server
  define({
    ...endpoints.exec,
    summary:
      'Runs a command. It is killed when the client disconnects. Without `maxBuffer`, the result has at most 16 MiB of each stream.',
    body: shape(execMembers, ['command']),
    errors,
    async handle({ body, signal, hold }) {
      const { command, ...options } = body
      const run = runToReply(backend, command, { ...options, signal }, hold)
      const result = await metrics.command(run)
      return { result, process: detached(server, result) }
    },
  })
  define({
    method: 'POST',
    path: '/v1/exec/stream',
    summary:
      'Runs a command and streams its output, as events: run, start, stdout, stderr, and finally complete or error.',
    body: shape(streamMembers, ['command']),
    reply: 'events',
    errors,
    async handle({ body, signal, hold }) {
      const { command, openInput, wholeResult, byteEvents, ...rest } = body
      // A terminal would stay open for input that no request could send.
      const given = rest.pty === undefined || openInput ? rest : { input: '', ...rest }
      const options = withInput(given, openInput)
      const { id, run } = runs.add((signal) =>
        streamToConnection(backend, command, { ...options, signal }, { wholeResult, byteEvents, hold }),
      )
      signal.addEventListener('abort', () => run.abort.abort(signal.reason), { once: true })
      const output = eventsOf(run.stream)
      void metrics
        .command(run.stream.result)
        .catch(resultOf)
        .then((result) => runs.end(id, result, options.logLimit !== undefined))
      const first = { type: 'run', runId: id, time: new Date() }
      return events(output, (event) => [encodeEvent(server, event)], [{ data: first }])
    },
  })
  define({
    ...endpoints.writeToRun,
    summary: 'Writes to the input of a run, or closes it. Responds when the input is written.',
    body: shape({ data: kinds.data, end: kinds.flag }),
    errors: ['RUN_NOT_FOUND', 'INPUT_CLOSED'],
    async handle({ params, body: { data, end }, signal }) {
      const { target, inputs } = runs.target(params.runId)
      // After a disconnection, the command must not take a part of its input for all of it.
      await Promise.all([
        data !== undefined && inputs.take(() => target.write(data), signal),
        end && inputs.take(() => target.closeInput(), signal),
      ])
    },
  })
  define({
    ...endpoints.killRun,
    summary: 'Kills a run, which then ends with `complete`.',
    body: shape({ signal: kinds.killSignal, ...described(tables.killReason) }),
    errors: ['RUN_NOT_FOUND'],
    handle: async ({ params, body: { signal, ...options } }) =>
      runs.get(params.runId).stream.kill(signal, options),
  })
  define({
    ...endpoints.detachRun,
    summary:
      'Makes the command of a run a process. Its session is free, its events go on, and a disconnection does not kill it.',
    errors: ['RUN_NOT_FOUND', 'DETACH_FAILED'],
    handle: async ({ params }) => processes.show(processIo.processBackend(await runs.detach(params.runId))),
  })
  define({
    ...endpoints.runLogs,
    summary: 'Returns the output of a run with `logLimit` so far, until a minute after its end.',
    query: shape({ encoding: kinds.encoding }),
    errors: ['RUN_NOT_FOUND'],
    handle: async ({ params, query }) => runs.log(params.runId).getLogs(query),
  })
  define({
    ...endpoints.runLines,
    summary: 'Returns lines of the output of a run with `logLimit` so far, until a minute after its end.',
    body: shape(described(tables.logLinesOptions)),
    errors: ['RUN_NOT_FOUND'],
    handle: async ({ params, body, signal }) => runs.log(params.runId).getLogLines({ ...body, signal }),
  })
  define({
    ...endpoints.runWaiting,
    summary: 'Finds out whether a program of a run waits for input, until a minute after its end.',
    errors: ['RUN_NOT_FOUND'],
    async handle({ params: { runId } }) {
      if (runs.exit(runId) !== undefined) return null
      return runs.target(runId).target.waiting()
    },
  })
  define({
    ...endpoints.runWaitFor,
    summary:
      'Waits for the first of several things: the end of a run, input, a line, no output, or a time. Until a minute after its end.',
    body: shape(described(tables.waitForOptions)),
    errors: ['RUN_NOT_FOUND'],
    async handle({ params: { runId }, body, signal }): Promise<WaitEnd> {
      const options = { ...body, signal }
      protocol.planOf(protocol.processCalls.waitFor, options)
      const exit = runs.exit(runId)
      if (exit === undefined) return runs.target(runId).target.waitFor(options)
      // A line of the log may have come first.
      return runs.hasLog(runId) ? runs.log(runId).waitFor(options) : { by: 'exit', exit }
    },
  })
  define({
    ...endpoints.resizeRun,
    summary: 'Sets the size of the terminal of a run.',
    body: shape(tables.terminalOptions, ['cols', 'rows']),
    errors: ['RUN_NOT_FOUND', 'HELD'],
    handle: async ({ params, body: { cols, rows } }) => runs.target(params.runId).target.resize(cols, rows),
  })
  define({
    ...endpoints.abortRun,
    summary: 'Kills a run, which then ends with `error` and the code ABORT_ERR.',
    errors: ['RUN_NOT_FOUND'],
    handle: async ({ params }) => runs.get(params.runId).abort.abort(),
  })
}

/** The process that a command has become because of `detachAfter`. */
function detached(
  { processes }: ServerContext,
  { process }: Pick<ExecResult<Encoding>, 'process'>,
): NamedProcess | undefined {
  return process && processes.show(processIo.processBackend(process))
}

function encodeEvent(server: ServerContext, event: ExecEvent<Encoding>): ServerEvent {
  switch (event.type) {
    case 'start':
      return { data: event }
    case 'stdout':
    case 'stderr':
      return { data: { ...event, data: encodeData(event.data) } }
    case 'complete': {
      const process = detached(server, event.result)
      const shown = process && encodeReply(endpoints.getProcess.reply, process)
      return { data: { ...event, result: encodeReply(tables.execResult, event.result), process: shown } }
    }
    case 'error':
      return { data: errorEvent(server, event.error, 'v1') }
  }
}
