/**
 * Ends a remote job: asks once, then polls until all of its processes have exited.
 *
 * The job's supervisor does the work and keeps the grace time. The kill from here is for a supervisor that could not
 * receive a grace time, and for what a killed one has left.
 */
import { clock, engineError } from 'nacre/internal'
import { jobOf, readFacts, statusOf } from './facts.js'
import { notFound } from './find.js'
import { PollInterval } from './poll-interval.js'
import { call, type RemotePlace } from './remote-call.js'

/** Milliseconds to wait for processes that survive even SIGKILL. */
const UNKILLABLE_MS = 10_000
/** Short, since each call already waits for up to a second. */
const PAUSE_MS = 50

export async function cancel(
  place: RemotePlace,
  jobId: string,
  graceMs: number | undefined,
  defaultGraceMs: number,
): Promise<void> {
  const interval = new PollInterval(PAUSE_MS)
  let lines = await call(place, 'cancel', jobId, 'ask', graceMs === undefined ? '-' : Math.ceil(graceMs / 10))
  const [facts] = readFacts(lines)
  if (facts === undefined || statusOf(facts) === undefined) throw notFound(jobId)
  const deadline = clock.performance.now() + (graceMs ?? jobOf(facts)?.graceMs ?? defaultGraceMs)
  while (lines.includes('left yes')) {
    const now = clock.performance.now()
    if (now > deadline + UNKILLABLE_MS)
      throw engineError(
        'ENGINE_ERROR',
        `job '${jobId}' cannot be cancelled: some of its processes survive SIGKILL`,
      )
    await interval.wait(0, undefined)
    lines = await call(place, 'cancel', jobId, now >= deadline ? 'kill' : 'look', '-')
  }
}
