/**
 * Background processes and services: starting, listing, ending.
 */
import { z } from '@hono/zod-openapi'
import { OptionError } from '../../base/errors.js'
import { ownOnly } from '../../base/own.js'
import { killOptions, processOptions, serviceOptions } from '../../protocol/process-options.js'
import * as replies from '../../protocol/replies.js'
import { portOptions } from '../../protocol/wait-options.js'
import { planFilter, readKill } from '../../requests/logs.js'
import type { OptionTable } from '../../schema/kind.js'
import type { ServerContext } from '../context.js'
import { withInstance } from '../processes.js'
import type { Define } from '../route.js'
import {
  commandSchema,
  idSchema,
  mustBe,
  patternSchema,
  processParams,
  signalSchema,
  strictObject,
} from '../schemas.js'
import { shapeOf } from '../table-schema.js'
import { optionsOf } from '../wire.js'
import { patternOf } from './values.js'

const openInput = z
  .boolean()
  .optional()
  .openapi({ description: 'Keeps standard input open for later requests to /input.' })

const startBody = strictObject({ command: commandSchema, ...shapeOf(processOptions), openInput })

const timeout = z.number().optional()

const serviceBody = strictObject({
  command: commandSchema,
  ...shapeOf(serviceOptions),
  openInput,
  healthCheck: z.union(
    [
      strictObject({ port: z.number(), ...shapeOf(portOptions), timeout }),
      strictObject({ log: patternSchema, timeout }),
      strictObject({ command: commandSchema, interval: z.number().optional(), timeout }),
    ],
    mustBe('{"port": 8080}, {"log": "ready"} or {"command": "test -e ready"}, with options of that check'),
  ),
})

const errors = [
  'PROCESS_ALREADY_EXISTS',
  'SESSION_NOT_FOUND',
  'CWD_NOT_FOUND',
  'LIMIT_UNSUPPORTED',
  'SPAWN_FAILED',
]

export function addV1Processes(define: Define, { backend, processes }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/processes',
    tag: 'processes',
    summary: 'Starts a process in the background.',
    body: startBody,
    reply: replies.process,
    errors,
    patient: true,
    async handle({ body: { command, ...rest } }) {
      const process = await processes.start(command, processOptionsOf(processOptions, ownOnly(rest)))
      return processes.show(process)
    },
  })
  define({
    method: 'post',
    path: '/v1/services',
    tag: 'processes',
    summary: 'Starts a process and waits until its health check passes.',
    body: serviceBody,
    reply: replies.process,
    errors: [...errors, 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY'],
    patient: true,
    async handle({ body: { command, healthCheck, ...rest }, signal }) {
      const given = 'log' in healthCheck ? { ...healthCheck, log: patternOf(healthCheck.log) } : healthCheck
      const options = processOptionsOf(serviceOptions, ownOnly(rest))
      // A service whose client disconnected while it was starting would stay unknown.
      const start = new AbortController()
      const abandon = () => start.abort(signal.reason)
      signal.addEventListener('abort', abandon)
      try {
        const service = await processes.startService(command, {
          ...options,
          signal: start.signal,
          healthCheck: given,
        })
        return processes.show(service)
      } finally {
        signal.removeEventListener('abort', abandon)
      }
    },
  })
  define({
    method: 'get',
    path: '/v1/processes',
    tag: 'processes',
    summary: 'Lists the processes.',
    query: strictObject({
      status: z.string().optional().openapi({ description: 'One status, or several separated by commas.' }),
      sessionId: idSchema.optional(),
    }),
    reply: replies.processes,
    async handle({ query: { status, sessionId } }) {
      const found = await backend.listProcesses(planFilter({ status: status?.split(','), sessionId }))
      return { processes: found.map((process) => processes.show(process)) }
    },
  })
  define({
    method: 'get',
    path: '/v1/processes/{processId}',
    tag: 'processes',
    summary: 'Returns the state of a process.',
    params: processParams,
    reply: replies.process,
    errors: ['PROCESS_NOT_FOUND', 'INVALID_ID'],
    async handle({ params }) {
      return processes.show(await processes.find(params.processId))
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/kill-all',
    tag: 'processes',
    summary: 'Kills all processes.',
    reply: replies.count,
    patient: true,
    async handle() {
      return { count: await backend.killAllProcesses() }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/cleanup',
    tag: 'processes',
    summary: 'Removes ended processes from the list.',
    reply: replies.count,
    async handle() {
      return { count: await backend.cleanUpProcesses() }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/kill',
    tag: 'processes',
    summary: 'Kills a process and everything that it started.',
    params: processParams,
    body: strictObject({ signal: signalSchema.optional(), ...shapeOf(killOptions) }),
    reply: replies.kill,
    errors: ['PROCESS_NOT_FOUND'],
    patient: true,
    async handle({ params, body: { signal, ...rest } }) {
      const process = await processes.find(params.processId)
      const killed = await process.kill(readKill(signal, optionsOf(killOptions, rest), 'kill'))
      return { killed, process: withInstance(process) }
    },
  })
}

function processOptionsOf(
  table: OptionTable,
  { openInput, ...body }: Record<string, unknown>,
): Record<string, unknown> {
  if (openInput !== true) return optionsOf(table, body)
  if (body.input !== undefined)
    throw new OptionError('INVALID_OPTION', 'input and openInput exclude each other')
  return { ...optionsOf(table, body), input: 'pipe' }
}
