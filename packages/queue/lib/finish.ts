/** Tells BullMQ how a job has ended. */
import { type Job, UnrecoverableError } from 'bullmq'
import type { OnHostLost } from './public.js'
import type { Scripts } from './redis.js'
import { mayRetry, type StoredResult } from './result.js'

/**
 * Completes or fails a job, whose lock has this token. Rejects when the lock was lost meanwhile: then BullMQ offers the job
 * again, and its next taker finds the recorded result.
 */
export async function finish(
  scripts: Scripts,
  job: Job,
  token: string,
  result: StoredResult,
  onHostLost: OnHostLost,
): Promise<void> {
  if (result.error === null) {
    await job.moveToCompleted(result, token, false)
    return
  }
  await scripts.call('remember', job.id ?? '', token, JSON.stringify(result))
  const Failure = mayRetry(result, onHostLost) ? Error : UnrecoverableError
  const failure = new Failure(result.error)
  // The stack of this module says nothing about the command.
  failure.stack = result.error
  await job.moveToFailed(failure, token, false)
}
