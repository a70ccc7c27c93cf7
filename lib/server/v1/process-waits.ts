/**
 * Waiting for a process: its end, a line of its log, a port. The wait is given up when the client goes away.
 */
import { z } from '@hono/zod-openapi'
import type { ServerContext } from '../context'
import type { Define } from '../route'
import { processParams } from '../schemas'
import { encodeProcess } from '../wire'
import { findProcess } from './find'
import { processSchema } from './processes'
import { patternOf, patternSchema, portOptionsSchema } from './values'

const timeout = z.number().optional()

const tag = 'processes'
const params = processParams
const patient = true
const errors = ['PROCESS_NOT_FOUND', 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY']

export function addProcessWaits(define: Define, { sandbox }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait',
    summary: 'Waits for the end of a process.',
    ...{ tag, params, patient, errors },
    body: z.strictObject({ timeout }),
    reply: z.object({
      exit: z.object({
        exitCode: z.number().nullable(),
        signal: z.string().nullable(),
        reason: z.string().nullable(),
      }),
      process: processSchema,
    }),
    async handle({ params: { processId }, body, signal }) {
      const process = await findProcess(sandbox, processId)
      const exit = await process.wait({ ...body, signal })
      return { exit, process: encodeProcess(process) }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait-for-log',
    summary: 'Waits for a line of the log that contains text, or matches a regular expression.',
    ...{ tag, params, patient, errors },
    body: z.strictObject({ pattern: patternSchema, timeout, since: z.number().optional() }),
    reply: z.object({ line: z.string() }),
    async handle({ params: { processId }, body: { pattern, ...rest }, signal }) {
      const process = await findProcess(sandbox, processId)
      const { line } = await process.waitForLog(patternOf(pattern), { ...rest, signal })
      return { line }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait-for-port',
    summary: 'Waits until the process serves a port.',
    ...{ tag, params, patient, errors },
    body: portOptionsSchema.extend({ port: z.number(), timeout }),
    reply: z.object({}),
    async handle({ params: { processId }, body: { port, ...rest }, signal }) {
      const process = await findProcess(sandbox, processId)
      await process.waitForPort(port, { ...rest, signal })
      return {}
    },
  })
}
