/**
 * Waits for a process: its end, a line of its log, a port. The wait ends when the client disconnects.
 */
import { z } from '@hono/zod-openapi'
import * as replies from '../../protocol/replies.js'
import { waitForLogOptions, waitForPortOptions, waitOptions } from '../../protocol/wait-options.js'
import { planWait, planWaitForLog, planWaitForPort } from '../../requests/waits.js'
import type { ServerContext } from '../context.js'
import { withInstance } from '../processes.js'
import type { Define } from '../route.js'
import { patternSchema, processParams, strictObject } from '../schemas.js'
import { shapeOf } from '../table-schema.js'
import { optionsOf } from '../wire.js'
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
    reply: replies.wait,
    async handle({ params: { processId }, body, signal }) {
      const process = await processes.find(processId)
      const exit = await process.wait(planWait({ ...optionsOf(waitOptions, body), signal }))
      return { exit, process: withInstance(process) }
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait-for-log',
    summary: 'Waits for a log line that contains a text or matches a regular expression.',
    ...{ tag, params, patient, errors },
    body: strictObject({ pattern: patternSchema, ...shapeOf(waitForLogOptions) }),
    reply: replies.logLine,
    async handle({ params: { processId }, body: { pattern, ...rest }, signal }) {
      const process = await processes.find(processId)
      const options = { ...optionsOf(waitForLogOptions, rest), signal }
      return process.waitForLog(planWaitForLog(patternOf(pattern), options))
    },
  })
  define({
    method: 'post',
    path: '/v1/processes/{processId}/wait-for-port',
    summary: 'Waits until a process serves a port.',
    ...{ tag, params, patient, errors },
    body: strictObject({ port: z.number(), ...shapeOf(waitForPortOptions) }),
    reply: replies.empty,
    async handle({ params: { processId }, body: { port, ...rest }, signal }) {
      const process = await processes.find(processId)
      const options = { ...optionsOf(waitForPortOptions, rest), signal }
      await process.waitForPort(planWaitForPort(port, options))
      return {}
    },
  })
}
