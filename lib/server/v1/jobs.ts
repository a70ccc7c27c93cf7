/**
 * Durable jobs. They outlive the server, and so do their cursors.
 */
import { z } from '@hono/zod-openapi'
import { engineError } from '../../base/errors.js'
import { jobCancelOptions, jobStartOptions } from '../../protocol/job-options.js'
import {
  jobReference,
  planJobCancel,
  planJobFollow,
  planJobRead,
  planJobStart,
  readCursor,
} from '../../requests/jobs.js'
import { MOST_EVENT_BYTES } from '../bounds.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import {
  commandSchema,
  cursorOf,
  dataSchema,
  encodingSchema,
  jobParams,
  queryFlag,
  queryNumber,
  strictObject,
} from '../schemas.js'
import { events } from '../sse.js'
import { shapeOf } from '../table-schema.js'
import { encodeJobInfo, encodeJobRead, encodeJobStatus, optionsOf } from '../wire.js'

const statusSchema = z
  .object({
    state: z.enum(['running', 'exited', 'crashed']),
    exitCode: z.number().nullable(),
    signal: z.string().optional(),
    reason: z.string().optional(),
    alive: z.boolean(),
    endedAt: z.string().optional(),
    duration: z.number().optional(),
    outputLost: z.literal(true).optional(),
  })
  .openapi('JobStatus')

const handleSchema = z
  .object({
    jobId: z.string(),
    dir: z.string(),
    outputFile: z.string(),
    exitFile: z.string(),
    pgid: z.number(),
    cgroup: z.string().nullable(),
    processName: z.string().optional(),
  })
  .openapi('Job')

const infoSchema = handleSchema.extend({
  createdAt: z.string(),
  command: z.string().optional(),
  status: statusSchema,
})

const readSchema = z.object({
  raw: dataSchema,
  cursor: z.number(),
  bytesFetched: z.number(),
  status: statusSchema,
})

const startBody = strictObject({ ...shapeOf(jobStartOptions), command: commandSchema })

const readQuery = strictObject({
  cursor: queryNumber.optional(),
  maxBytes: queryNumber.optional(),
  lines: queryFlag.optional(),
  encoding: encodingSchema.optional(),
})

const tag = 'jobs'
const params = jobParams
const errors = ['JOB_NOT_FOUND', 'INVALID_ID']

export function addJobs(define: Define, { backend: { jobs } }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/jobs',
    tag,
    summary: 'Starts a job.',
    body: startBody,
    reply: handleSchema,
    errors: ['JOB_ALREADY_EXISTS', 'CWD_NOT_FOUND', 'LIMIT_UNSUPPORTED', 'SPAWN_FAILED'],
    async handle({ body }) {
      return jobs.start(planJobStart(optionsOf(jobStartOptions, body)))
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs',
    tag,
    summary: 'Lists the jobs in start order.',
    reply: z.object({ jobs: z.array(infoSchema) }),
    async handle() {
      return { jobs: (await jobs.list()).map(encodeJobInfo) }
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs/{jobId}',
    summary: 'Returns the handle of a job.',
    ...{ tag, params, errors },
    reply: handleSchema,
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
    reply: statusSchema,
    async handle({ params: { jobId } }) {
      return encodeJobStatus(await jobs.status(jobReference(jobId)))
    },
  })
  define({
    method: 'get',
    path: '/v1/jobs/{jobId}/output',
    summary: 'Reads the output of a job, starting at a cursor.',
    ...{ tag, params, errors },
    query: readQuery,
    reply: readSchema,
    async handle({ params: { jobId }, query: { cursor, ...rest } }) {
      return encodeJobRead(await jobs.read(jobReference(jobId), readCursor(cursor), planJobRead(rest)))
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
        (read) => [{ id: read.cursor, data: { type: 'output', ...encodeJobRead(read) } }],
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
    reply: statusSchema,
    patient: true,
    async handle({ params: { jobId }, signal }) {
      return encodeJobStatus(await jobs.wait(jobReference(jobId), signal))
    },
  })
  define({
    method: 'post',
    path: '/v1/jobs/{jobId}/cancel',
    summary: 'Cancels a job and kills everything that it started.',
    ...{ tag, params, errors: [...errors, 'JOB_RUNNING'] },
    body: strictObject(shapeOf(jobCancelOptions)),
    reply: z.object({}),
    patient: true,
    async handle({ params: { jobId }, body }) {
      const { forceKillAfterDelay } = planJobCancel(optionsOf(jobCancelOptions, body))
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
    reply: z.object({}),
    async handle({ params: { jobId } }) {
      await jobs.remove(jobReference(jobId))
      return {}
    },
  })
}
