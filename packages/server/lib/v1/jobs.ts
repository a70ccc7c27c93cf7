/**
 * Durable jobs. They outlive the server, and so do their cursors.
 */
import { jobStartOptions, kinds, plans, unknownId } from 'nacre/internal'
import { endpoints, protocol, tables } from 'nacre/internal/server'
import { MOST_EVENT_BYTES } from '../bounds.js'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { cursorOf, queryFlag, queryNumber } from '../parameters.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { eventsToEnd } from '../sse.js'
import { encodeReply } from '../wire.js'
import { addSimpleCalls } from './simple-calls.js'

const readQuery = shape({
  cursor: queryNumber,
  maxBytes: queryNumber,
  lines: queryFlag,
  encoding: kinds.encoding,
})

const { errors } = protocol.jobCalls.status

export function addJobs(define: Define, { backend: { jobs } }: ServerContext): void {
  addSimpleCalls(define, protocol.jobCalls, () => jobs)
  define({
    ...endpoints.startJob,
    summary: 'Starts a job.',
    body: shape(described(jobStartOptions), ['command']),
    errors: [
      'JOB_ALREADY_EXISTS',
      'CWD_NOT_FOUND',
      'LIMIT_UNSUPPORTED',
      'WORKSPACE_UNSUPPORTED',
      'SPAWN_FAILED',
    ],
    handle: async ({ body }) => jobs.start(plans.planJobStart(body)),
  })
  define({
    ...endpoints.getJob,
    summary: 'Returns the handle of a job.',
    errors,
    async handle({ params: { jobId } }) {
      const handle = await jobs.attach(jobId)
      if (handle === null) throw unknownId('job', jobId)
      return handle
    },
  })
  define({
    method: 'GET',
    path: '/v1/jobs/{jobId}/follow',
    summary:
      'Streams the output of a job, starting at a cursor, as events: output, and finally end. Event ids are cursors.',
    errors,
    query: readQuery,
    reply: 'events',
    async handle({ params: { jobId }, query: { cursor, ...rest }, lastEventId, signal }) {
      await jobs.status({ jobId })
      const from = lastEventId === undefined ? cursor : cursorOf(lastEventId)
      const maxBytes = Math.min(rest.maxBytes ?? MOST_EVENT_BYTES, MOST_EVENT_BYTES)
      const pieces = jobs.follow(
        jobId,
        plans.readCursor(from),
        plans.planJobFollow({ ...rest, maxBytes, signal }),
      )
      return eventsToEnd(pieces, (read) => [
        { id: read.cursor, data: { type: 'output', ...encodeReply(tables.jobRead, read) } },
      ])
    },
  })
  define({
    ...endpoints.cancelJob,
    summary: 'Cancels a job and kills everything that it started.',
    errors: [...errors, 'JOB_RUNNING'],
    body: shape(described(tables.jobCancelOptions)),
    handle: async ({ params, body }) =>
      jobs.cancel(params.jobId, plans.planJobCancel(body).forceKillAfterDelay),
  })
}
