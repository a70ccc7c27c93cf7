/**
 * Waits for a process: its end, a line of its log, a port. The wait ends when the client disconnects.
 */

import { kinds, plans } from 'nacre/internal'
import { endpoints, protocol, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { withInstance } from '../processes.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { linePatternJson } from './pattern.js'

const { errors } = protocol.processCalls.waitForInput

export function addProcessWaits(define: Define, { processes }: ServerContext): void {
  define({
    ...endpoints.waitForExit,
    summary: 'Waits until a process ends.',
    errors: ['PROCESS_NOT_FOUND', 'PROCESS_WAIT_TIMEOUT'],
    body: shape(described(tables.waitOptions)),
    async handle({ params: { processId }, body, signal }) {
      const process = await processes.find(processId)
      const exit = await process.wait(plans.planWait({ ...body, signal }))
      return { exit, process: withInstance(process) }
    },
  })
  define({
    ...endpoints.waitForLog,
    summary: 'Waits for a log line that contains a text or matches a regular expression.',
    errors,
    body: shape({ pattern: linePatternJson, ...described(tables.waitForLogOptions) }, ['pattern']),
    handle: async ({ params, body: { pattern, ...rest }, signal }) =>
      (await processes.find(params.processId)).waitForLog(plans.planWaitForLog(pattern, { ...rest, signal })),
  })
  define({
    ...endpoints.waitForPort,
    summary: 'Waits until a process serves a port.',
    errors,
    body: shape({ port: kinds.portNumber, ...described(tables.waitForPortOptions) }, ['port']),
    handle: async ({ params, body: { port, ...rest }, signal }) =>
      (await processes.find(params.processId)).waitForPort(plans.planWaitForPort(port, { ...rest, signal })),
  })
}
