/**
 * Background processes and services: starting, listing, ending.
 */
import { z } from '@hono/zod-openapi'
import type { HealthCheck, ProcessOptions, ProcessStatus, Signal } from '../../../index'
import { OptionError } from '../../errors'
import type { ServerContext } from '../context'
import type { Define } from '../route'
import {
  commandSchema,
  dataSchema,
  envOf,
  envSchema,
  limitsSchema,
  processParams,
  signalSchema,
  statusSchema,
} from '../schemas'
import { decodeData, encodeProcess } from '../wire'
import { findProcess } from './find'
import { patternOf, patternSchema, portOptionsSchema } from './values'

export const processSchema = z
  .object({
    id: z.string(),
    pid: z.number(),
    command: z.string(),
    sessionId: z.string(),
    status: statusSchema,
    startTime: z.string(),
    endTime: z.string().optional(),
    exitCode: z.number().nullable(),
    signal: z.string().nullable(),
    reason: z.string().optional(),
  })
  .openapi('Process')

const startBody = z.strictObject({
  command: commandSchema,
  sessionId: z.string().optional(),
  processId: z.string().optional(),
  cwd: z.string().optional(),
  env: envSchema.optional(),
  timeout: z.number().optional(),
  killSignal: signalSchema.optional(),
  forceKillAfterDelay: z.number().optional(),
  input: dataSchema.optional(),
  openInput: z.boolean().optional().openapi({ description: 'input stays open, for /input' }),
  logLimit: z.number().optional(),
  autoCleanup: z.boolean().optional(),
  limits: limitsSchema.optional(),
  pty: z.strictObject({ cols: z.number(), rows: z.number() }).optional(),
})

const serviceBody = startBody.extend({
  healthCheck: z.union([
    portOptionsSchema.extend({ port: z.number(), timeout: z.number().optional() }),
    z.strictObject({ log: patternSchema, timeout: z.number().optional() }),
    z.strictObject({
      command: commandSchema,
      interval: z.number().optional(),
      timeout: z.number().optional(),
    }),
  ]),
  restart: z.enum(['never', 'on-failure']).optional(),
  restartDelay: z.number().optional(),
})

const errors = [
  'PROCESS_ALREADY_EXISTS',
  'SESSION_NOT_FOUND',
  'CWD_NOT_FOUND',
  'LIMIT_UNSUPPORTED',
  'SPAWN_FAILED',
]

export function addV1Processes(define: Define, { sandbox, metrics }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/processes',
    tag: 'processes',
    summary: 'Starts a process in the background.',
    body: startBody,
    reply: processSchema,
    errors,
    patient: true,
    async handle({ body: { command, ...rest } }) {
      const process = await sandbox.startProcess(command, optionsOf(rest))
      metrics.process(process)
      return encodeProcess(process)
    },
  })
  define({
    method: 'post',
    path: '/v1/services',
    tag: 'processes',
    summary: 'Starts a process and waits until its health check passes.',
    body: serviceBody,
    reply: processSchema,
    errors: [...errors, 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY'],
    patient: true,
    async handle({ body: { command, healthCheck, restart, restartDelay, ...rest }, signal }) {
      const given = 'log' in healthCheck ? { ...healthCheck, log: patternOf(healthCheck.log) } : healthCheck
      const { input, ...options } = optionsOf(rest)
      // Nobody would know of a service whose client went away while it was being started.
      const start = new AbortController()
      const abandon = () => start.abort(signal.reason)
      signal.addEventListener('abort', abandon)
      try {
        const service = await sandbox.startService(command, {
          ...options,
          ...{ restart, restartDelay, signal: start.signal },
          input: input as Uint8Array | string | undefined,
          healthCheck: given as HealthCheck,
        })
        metrics.process(service)
        return encodeProcess(service)
      } finally {
        signal.removeEventListener('abort', abandon)
      }
    },
  })
  define({
    method: 'get',
    path: '/v1/processes',
    tag: 'processes',
    summary: 'The processes that are known.',
    query: z.strictObject({
      status: z.string().optional().openapi({ description: 'one or several, with commas' }),
      sessionId: z.string().optional(),
    }),
    reply: z.object({ processes: z.array(processSchema) }),
    async handle({ query: { status, sessionId } }) {
      const wanted = status?.split(',') as ProcessStatus[] | undefined
      const processes = await sandbox.listProcesses({ status: wanted, sessionId })
      return { processes: processes.map(encodeProcess) }
    },
  })
  define({
    method: 'get',
    path: '/v1/processes/{processId}',
    tag: 'processes',
    summary: 'One process.',
    params: processParams,
    reply: processSchema,
    errors: ['PROCESS_NOT_FOUND', 'INVALID_ID'],
    async handle({ params }) {
      return encodeProcess(await findProcess(sandbox, params.processId))
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/kill-all',
    tag: 'processes',
    summary: 'Kills all processes.',
    reply: z.object({ count: z.number() }),
    patient: true,
    async handle() {
      return { count: await sandbox.killAllProcesses() }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/cleanup',
    tag: 'processes',
    summary: 'Forgets processes that have ended.',
    reply: z.object({ count: z.number() }),
    async handle() {
      return { count: await sandbox.cleanupCompletedProcesses() }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/kill',
    tag: 'processes',
    summary: 'Kills a process with everything that belongs to it.',
    params: processParams,
    body: z.strictObject({ signal: signalSchema.optional(), forceKillAfterDelay: z.number().optional() }),
    reply: z.object({ killed: z.boolean(), process: processSchema }),
    errors: ['PROCESS_NOT_FOUND'],
    patient: true,
    async handle({ params, body: { signal, forceKillAfterDelay } }) {
      const process = await findProcess(sandbox, params.processId)
      const killed = await process.kill(signal as Signal, { forceKillAfterDelay })
      return { killed, process: encodeProcess(process) }
    },
  })
}

function optionsOf({
  env,
  input,
  openInput,
  killSignal,
  ...rest
}: Omit<z.output<typeof startBody>, 'command'>): ProcessOptions {
  if (openInput && input !== undefined)
    throw new OptionError('INVALID_OPTION', 'input and openInput exclude each other')
  const given = openInput ? ('pipe' as const) : input === undefined ? undefined : bytesOf(decodeData(input))
  return {
    ...rest,
    env: envOf(env),
    killSignal: killSignal as Signal | undefined,
    ...(given !== undefined && { input: given }),
  }
}

/** As text, 'pipe' would mean something else. */
function bytesOf(data: string | Uint8Array): Uint8Array {
  return typeof data === 'string' ? Buffer.from(data, 'utf8') : data
}
