/** Reads the output of an attempt from its host, by way of Redis. */
import type { Encoding, JobRead } from 'nacre'
import { AbortError, aborts, durable, engineError, type plans } from 'nacre/internal'
import type { HostRequest } from './inbox.js'
import type { Location } from './job-view.js'
import type { AttemptRef } from './keys.js'
import { MOST_BYTES, NEWS_MS } from './log-wire.js'
import type { Replies, Reply } from './replies.js'

export interface LogSource {
  read(cursor: number, plan: plans.JobReadPlan): Promise<JobRead<Encoding>>
  follow(
    cursor: number,
    plan: plans.JobReadPlan & { signal: AbortSignal },
  ): AsyncIterableIterator<JobRead<Encoding>, undefined>
}

/** Milliseconds until a request without an answer is repeated: the host may have been restarted. */
const ANSWER_MS = 3000

/**
 * The output as its host sends it. A reader has one request at a time, and asks again when no answer comes, so it survives
 * restarts of the worker and of Redis.
 */
export function outputOfHost(
  replies: Replies,
  ref: AttemptRef,
  find: () => Promise<Location | undefined>,
  stop: AbortSignal,
): LogSource {
  const ask = async (
    op: 'read' | 'news',
    cursor: number,
    maxBytes: number,
    until: AbortSignal,
  ): Promise<Reply> => {
    const within = ANSWER_MS + (op === 'news' ? NEWS_MS : 0)
    for (;;) {
      const found = await find()
      if (found === undefined)
        throw engineError('JOB_NOT_FOUND', `no host has attempt ${ref.attempt} of '${ref.id}'`)
      if (found.isLost)
        throw engineError('HOST_LOST', `the host '${found.host}' is lost, and has the output of '${ref.id}'`)
      const request: Omit<Extract<HostRequest, { op: 'read' | 'news' }>, 'reader' | 'call'> = {
        op,
        id: ref.id,
        attempt: ref.attempt,
        cursor,
        maxBytes,
      }
      const reply = await replies.ask(found.host, request, within, until)
      if (until.aborted) throw new AbortError(until.reason, undefined, 'reading the logs')
      if (reply === undefined) continue
      const { error } = reply.answer
      if (error !== undefined) throw engineError(error.code, error.message)
      return reply
    }
  }
  const backend: durable.OutputBackend = {
    fetch: async (_, cursor, maxBytes) => {
      const { answer, bytes } = await ask('read', cursor, maxBytes, stop)
      if (answer.status === undefined) throw engineError('ENGINE_ERROR', 'the host sent no status of the job')
      return { status: answer.status, bytes, atEnd: answer.atEnd ?? true }
    },
    watch: () => (seen, until) =>
      aborts.orAborted(
        ask('news', seen, 1, AbortSignal.any([stop, until])).then(
          () => {},
          (error: unknown) => {
            if (!until.aborted) throw error
          },
        ),
        until,
      ),
    mostBytes: MOST_BYTES,
  }
  return {
    read: (cursor, plan) => durable.readOutput(backend, ref.id, cursor, plan),
    follow: (cursor, plan) => durable.followOutput(backend, ref.id, cursor, plan),
  }
}
