/**
 * Waits for a process: its end, a line of its log, a port. The wait ends when the client disconnects.
 */
import { z } from '@hono/zod-openapi'
import { waitForLogOptions, waitForPortOptions, waitOptions } from '../../protocol/wait-options.js'
import { planWait, planWaitForLog, planWaitForPort } from '../../requests/waits.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { patternSchema, processParams, strictObject } from '../schemas.js'
import { shapeOf } from '../table-schema.js'
import { encodeProcess, optionsOf } from '../wire.js'
import { processSchema } from './processes.js'
import { patternOf } from './values.js'

const tag = 'processes'
const params = processParams
const patient = true
const errors = ['PROCESS_NOT_FOUND', 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY']

export function addProcessWaits(define: Define, { processes }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait',
    summary: 'Waits until a process ends.',
    ...{ tag, params, patient, errors },
    body: strictObject(shapeOf(waitOptions)),
    reply: z.object({
      exit: z.object({
        exitCode: z.number().nullable(),
        signal: z.string().nullable(),
        reason: z.string().nullable(),
      }),
      process: processSchema,
    }),
    async handle({ params: { processId }, body, signal }) {
      const process = await processes.find(processId)
      const exit = await process.wait(planWait({ ...optionsOf(waitOptions, body), signal }))
      return { exit, process: encodeProcess(process) }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait-for-log',
    summary: 'Waits for a log line that contains a text or matches a regular expression.',
    ...{ tag, params, patient, errors },
    body: strictObject({ pattern: patternSchema, ...shapeOf(waitForLogOptions) }),
    reply: z.object({ line: z.string() }),
    async handle({ params: { processId }, body: { pattern, ...rest }, signal }) {
      const process = await processes.find(processId)
      const options = { ...optionsOf(waitForLogOptions, rest), signal }
      const { line } = await process.waitForLog(planWaitForLog(patternOf(pattern), options))
      return { line }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait-for-port',
    summary: 'Waits until a process serves a port.',
    ...{ tag, params, patient, errors },
    body: strictObject({ port: z.number(), ...shapeOf(waitForPortOptions) }),
    reply: z.object({}),
    async handle({ params: { processId }, body: { port, ...rest }, signal }) {
      const process = await processes.find(processId)
      const options = { ...optionsOf(waitForPortOptions, rest), signal }
      await process.waitForPort(planWaitForPort(port, options))
      return {}
    },
  })
}
