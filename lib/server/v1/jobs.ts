/**
 * Durable jobs. They outlive the server, and so do their cursors.
 */
import { engineError } from '../../base/errors.js'
import { jobCancelOptions, jobStartOptions } from '../../protocol/job-options.js'
import * as replies from '../../protocol/replies.js'
import {
  jobReference,
  planJobCancel,
  planJobFollow,
  planJobRead,
  planJobStart,
  readCursor,
} from '../../requests/jobs.js'
import { encoding } from '../../schema/values.js'
import { MOST_EVENT_BYTES } from '../bounds.js'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { cursorOf, jobParams, queryFlag, queryNumber } from '../query.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { events } from '../sse.js'
import { encodeReply } from '../wire.js'

const readQuery = shape({ cursor: queryNumber, maxBytes: queryNumber, lines: queryFlag, encoding })

const tag = 'jobs'
const params = jobParams
const errors = ['JOB_NOT_FOUND', 'INVALID_ID']

export function addJobs(define: Define, { backend: { jobs } }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/jobs',
    tag,
    summary: 'Starts a job.',
    body: shape(described(jobStartOptions), ['command']),
    reply: replies.jobHandle,
    errors: ['JOB_ALREADY_EXISTS', 'CWD_NOT_FOUND', 'LIMIT_UNSUPPORTED', 'SPAWN_FAILED'],
    async handle({ body }) {
      return jobs.start(planJobStart(body))
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs',
    tag,
    summary: 'Lists the jobs in start order.',
    reply: replies.jobs,
    async handle() {
      return { jobs: await jobs.list() }
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs/{jobId}',
    summary: 'Returns the handle of a job.',
    ...{ tag, params, errors },
    reply: replies.jobHandle,
    async handle({ params: { jobId } }) {
      const handle = await jobs.attach(jobReference(jobId))
      if (handle === null) throw engineError('JOB_NOT_FOUND', `there is no job '${jobId}'`)
      return handle
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs/{jobId}/status',
    summary: 'Returns the status of a job.',
    ...{ tag, params, errors },
    reply: replies.jobStatus,
    async handle({ params: { jobId } }) {
      return jobs.status(jobReference(jobId))
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs/{jobId}/output',
    summary: 'Reads the output of a job, starting at a cursor.',
    ...{ tag, params, errors },
    query: readQuery,
    reply: replies.jobRead,
    async handle({ params: { jobId }, query: { cursor, ...rest } }) {
      return jobs.read(jobReference(jobId), readCursor(cursor), planJobRead(rest))
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs/{jobId}/follow',
    summary:
      'Streams the output of a job, starting at a cursor, as events: output, and finally end. Event ids are cursors.',
    ...{ tag, params, errors },
    query: readQuery,
    reply: 'events',
    async handle({ params: { jobId }, query: { cursor, ...rest }, lastEventId, signal }) {
      await jobs.status(jobReference(jobId))
      const since = lastEventId === undefined ? cursor : cursorOf(lastEventId)
      const maxBytes = Math.min(rest.maxBytes ?? MOST_EVENT_BYTES, MOST_EVENT_BYTES)
      const pieces = jobs.follow(jobId, readCursor(since), planJobFollow({ ...rest, maxBytes, signal }))
      return events(
        pieces,
        (read) => [{ id: read.cursor, data: { type: 'output', ...encodeReply(replies.jobRead, read) } }],
        [],
        () => [{ data: { type: 'end' } }],
      )
    },
  })
  define({
    method: 'post',
    path: '/v1/jobs/{jobId}/wait',
    summary: 'Waits until a job ends.',
    ...{ tag, params, errors },
    reply: replies.jobStatus,
    patient: true,
    async handle({ params: { jobId }, signal }) {
      return jobs.wait(jobReference(jobId), signal)
    },
  })
  define({
    method: 'post',
    path: '/v1/jobs/{jobId}/cancel',
    summary: 'Cancels a job and kills everything that it started.',
    ...{ tag, params, errors: [...errors, 'JOB_RUNNING'] },
    body: shape(described(jobCancelOptions)),
    reply: replies.empty,
    patient: true,
    async handle({ params: { jobId }, body }) {
      const { forceKillAfterDelay } = planJobCancel(body)
      await jobs.cancel(jobReference(jobId), forceKillAfterDelay)
      return {}
    },
  })
  define({
    method: 'delete',
    path: '/v1/jobs/{jobId}',
    summary: 'Removes a job that has ended.',
    ...{ tag, params },
    errors: [...errors, 'JOB_RUNNING'],
    reply: replies.empty,
    async handle({ params: { jobId } }) {
      await jobs.remove(jobReference(jobId))
      return {}
    },
  })
}
