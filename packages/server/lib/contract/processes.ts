/**
 * Background processes, as clients of a sandbox container know them.
 */
import type { ProcessLogs } from 'nacre'
import { kinds, plans } from 'nacre/internal'
import { replies } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { anyText, cursorOf, queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { events } from '../sse.js'
import {
  type ContainerStatus,
  containerProcess,
  done,
  exitCodeOf,
  givenVariables,
  now,
  requireProcess,
  STATUSES,
  showProcess,
  startedReply,
  timestamp,
} from './values.js'

const startBody = shape(
  {
    command: anyText,
    sessionId: kinds.identifier,
    processId: kinds.identifier,
    timeoutMs: kinds.milliseconds,
    env: kinds.env,
    cwd: anyText,
    encoding: anyText,
    autoCleanup: kinds.flag,
  },
  ['command'],
  true,
)

const status: kinds.Kind<ContainerStatus> = kinds.oneOf(STATUSES)

const countReply = replies.reply({ success: replies.yes, cleanedCount: replies.number, timestamp })

/** Those with a name of their own come first: an id could be that name. */
export function addProcesses(define: Define, { backend, processes }: ServerContext): void {
  define({
    method: 'POST',
    path: '/api/process/start',
    summary: 'Starts a process in the background.',
    body: startBody,
    reply: startedReply,
    errors: ['INVALID_COMMAND', 'SESSION_NOT_FOUND', 'PROCESS_ALREADY_EXISTS', 'COMMAND_EXECUTION_ERROR'],
    async handle({ body: { command, sessionId, processId, timeoutMs, env, cwd, autoCleanup } }) {
      const { info } = await processes.start(command, {
        ...{ sessionId, processId, cwd, autoCleanup, timeout: timeoutMs },
        env: givenVariables(env),
      })
      const { id, pid, command: shown } = info
      return done({ processId: id, pid, command: shown })
    },
  })
  define({
    method: 'GET',
    path: '/api/process/list',
    summary: 'Lists the processes.',
    query: shape({ status }, [], true),
    reply: replies.reply({ success: replies.yes, processes: replies.list(containerProcess), timestamp }),
    async handle({ query: { status } }) {
      const shown = (await backend.listProcesses(plans.planFilter({}))).map(showProcess)
      return done({ processes: shown.filter((process) => status === undefined || process.status === status) })
    },
  })
  define({
    method: 'DELETE',
    path: '/api/process/kill-all',
    summary: 'Kills all processes.',
    reply: countReply,
    async handle() {
      return done({ cleanedCount: await backend.killAllProcesses() })
    },
  })
  define({
    method: 'POST',
    path: '/api/process/cleanup',
    summary: 'Removes ended processes from the list.',
    reply: countReply,
    async handle() {
      return done({ cleanedCount: await backend.cleanUpProcesses() })
    },
  })
  define({
    method: 'GET',
    path: '/api/process/{processId}',
    summary: 'Returns the state of a process.',
    reply: replies.reply({ success: replies.yes, process: containerProcess, timestamp }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params }) {
      const process = await requireProcess(backend, params.processId)
      return done({ process: showProcess(process) })
    },
  })
  define({
    method: 'DELETE',
    path: '/api/process/{processId}',
    summary: 'Kills a process. A process that has already ended counts as killed.',
    query: shape({ signal: anyText }, [], true),
    reply: replies.reply({ success: replies.yes, processId: replies.text, timestamp }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId }, query: { signal } }) {
      await backend
        .process(kinds.readId(processId))
        .kill(plans.readKill(signalOf(signal), undefined, 'killProcess'))
      return done({ processId })
    },
  })
  define({
    method: 'GET',
    path: '/api/process/{processId}/logs',
    summary: 'Returns the output of a process so far.',
    reply: replies.reply({
      success: replies.yes,
      processId: replies.text,
      stdout: replies.text,
      stderr: replies.text,
      timestamp,
    }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId } }) {
      const { stdout, stderr } = (await backend
        .process(kinds.readId(processId))
        .logs({ encoding: 'utf8' })) as ProcessLogs
      return done({ processId, stdout, stderr })
    },
  })
  define({
    method: 'GET',
    path: '/api/process/{processId}/stream',
    summary: 'Streams the past and live output of a process, as events: process_info, stdout, stderr, exit.',
    query: shape({ cursor: queryNumber }, [], true),
    reply: 'events',
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId }, query: { cursor = 0 }, lastEventId, signal }) {
      const process = await requireProcess(backend, processId)
      const from = lastEventId === undefined ? cursor : cursorOf(lastEventId)
      let place = from
      const info = { type: 'process_info', ...showProcess(process), processId, timestamp: now() }
      return events(
        process.output(plans.planLogStream({ cursor: from, signal }, 'output')),
        (event) => {
          if (event.type === 'exit')
            return [
              {
                id: place,
                data: { type: 'exit', processId, exitCode: exitCodeOf(event), timestamp: event.time },
              },
            ]
          place = event.cursor
          return [
            {
              id: place,
              data: { type: event.type, data: event.data, processId, timestamp: event.time },
            },
          ]
        },
        [{ id: from, data: info }],
      )
    },
  })
}

/** A number can only come as text here. */
function signalOf(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text
}
