/**
 * Background processes, as clients of a sandbox container know them.
 */
import { z } from '@hono/zod-openapi'
import { planFilter, planLogStream, readKill } from '../../requests/logs.js'
import { readId } from '../../schema/names.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import {
  cursorOf,
  envSchema,
  idSchema,
  processParams,
  queryNumber,
  statusSchema,
  timestamp,
} from '../schemas.js'
import { events } from '../sse.js'
import {
  exitCodeOf,
  givenVariables,
  now,
  processSchema,
  requireProcess,
  showProcess,
  startedSchema,
} from './values.js'

const startBody = z.object({
  command: z.string(),
  sessionId: idSchema.optional(),
  processId: idSchema.optional(),
  timeoutMs: z.number().optional(),
  env: envSchema.optional(),
  cwd: z.string().optional(),
  encoding: z.string().optional(),
  autoCleanup: z.boolean().optional(),
})

const countSchema = z.object({ success: z.literal(true), cleanedCount: z.number(), timestamp })

/** Those with a name of their own come first: an id could be that name. */
export function addProcesses(define: Define, { backend, processes }: ServerContext): void {
  define({
    method: 'post',
    path: '/api/process/start',
    tag: 'container',
    summary: 'Starts a process in the background.',
    body: startBody,
    reply: startedSchema,
    errors: ['INVALID_COMMAND', 'SESSION_NOT_FOUND', 'PROCESS_ALREADY_EXISTS', 'COMMAND_EXECUTION_ERROR'],
    async handle({ body: { command, sessionId, processId, timeoutMs, env, cwd, autoCleanup } }) {
      const { info } = await processes.start(command, {
        ...{ sessionId, processId, cwd, autoCleanup, timeout: timeoutMs },
        env: givenVariables(env),
      })
      const { id, pid, command: shown } = info
      return { success: true, processId: id, pid, command: shown, timestamp: now() }
    },
  })
  define({
    method: 'get',
    path: '/api/process/list',
    tag: 'container',
    summary: 'Lists the processes.',
    query: z.object({ status: statusSchema.optional() }),
    reply: z.object({ success: z.literal(true), processes: z.array(processSchema), timestamp }),
    async handle({ query: { status } }) {
      const found = await backend.listProcesses(planFilter({ status }))
      return { success: true, processes: found.map(showProcess), timestamp: now() }
    },
  })
  define({
    method: 'delete',
    path: '/api/process/kill-all',
    tag: 'container',
    summary: 'Kills all processes.',
    reply: countSchema,
    async handle() {
      return { success: true, cleanedCount: await backend.killAllProcesses(), timestamp: now() }
    },
  })
  define({
    method: 'post',
    path: '/api/process/cleanup',
    tag: 'container',
    summary: 'Removes ended processes from the list.',
    reply: countSchema,
    async handle() {
      return { success: true, cleanedCount: await backend.cleanUpProcesses(), timestamp: now() }
    },
  })
  define({
    method: 'get',
    path: '/api/process/{processId}',
    tag: 'container',
    summary: 'Returns the state of a process.',
    params: processParams,
    reply: z.object({ success: z.literal(true), process: processSchema, timestamp }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params }) {
      const process = await requireProcess(backend, params.processId)
      return { success: true, process: showProcess(process), timestamp: now() }
    },
  })
  define({
    method: 'delete',
    path: '/api/process/{processId}',
    tag: 'container',
    summary: 'Kills a process. A process that has already ended counts as killed.',
    params: processParams,
    query: z.object({ signal: z.string().optional() }),
    reply: z.object({ success: z.literal(true), processId: z.string(), timestamp }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId }, query: { signal } }) {
      await backend.process(readId(processId)).kill(readKill(signalOf(signal), undefined, 'killProcess'))
      return { success: true, processId, timestamp: now() }
    },
  })
  define({
    method: 'get',
    path: '/api/process/{processId}/logs',
    tag: 'container',
    summary: 'Returns the output of a process so far.',
    params: processParams,
    reply: z.object({
      success: z.literal(true),
      processId: z.string(),
      stdout: z.string(),
      stderr: z.string(),
      timestamp,
    }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId } }) {
      const { stdout, stderr } = await backend.process(readId(processId)).logs('utf8')
      return { success: true, processId, stdout, stderr, timestamp: now() }
    },
  })
  define({
    method: 'get',
    path: '/api/process/{processId}/stream',
    tag: 'container',
    summary: 'Streams the past and live output of a process, as events: process_info, stdout, stderr, exit.',
    params: processParams,
    query: z.object({ cursor: queryNumber.optional() }),
    reply: 'events',
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId }, query: { cursor = 0 }, lastEventId, signal }) {
      const process = await requireProcess(backend, processId)
      const since = lastEventId === undefined ? cursor : cursorOf(lastEventId)
      let place = since
      const info = { type: 'process_info', ...showProcess(process), processId, timestamp: now() }
      return events(
        process.output(planLogStream({ since, signal }, 'output')),
        (event) => {
          if (event.type === 'exit')
            return [
              {
                id: place,
                data: { type: 'exit', processId, exitCode: exitCodeOf(event), timestamp: event.timestamp },
              },
            ]
          place = event.cursor
          return [
            {
              id: place,
              data: { type: event.type, data: event.data, processId, timestamp: event.timestamp },
            },
          ]
        },
        [{ id: since, data: info }],
      )
    },
  })
}

/** A number can only come as text here. */
function signalOf(text: string | undefined): string | number | undefined {
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : text
}
