/** The state of a job of a queue in words, and as an exit code. */
import { exitCodeOfEnd, type printing } from 'nacre/internal/cli'
import type { QueueJob } from '../public.js'

/** "active on host-1, attempt 2", "completed on host-1", "failed: the command exited with code 3". */
export function describeQueueJob(job: QueueJob, colors: ReturnType<typeof printing.colorsOf>): string {
  const { state, host, attempt, failedReason } = job
  const place = `${host === null ? '' : ` on ${host}`}${attempt > 1 ? `, attempt ${attempt}` : ''}`
  if (state === 'completed') return colors.green('completed') + place
  if (state === 'failed') return `${colors.red('failed')}${place}: ${failedReason}`
  return (state === 'active' ? colors.cyan(state) : state) + place
}

/** The exit code of its command; 1 when it has none. */
export function exitCodeOfQueueJob({ state, result }: QueueJob): number {
  if (state === 'completed') return 0
  const { exitCode = null, signal = null } = result ?? {}
  return exitCodeOfEnd(exitCode || null, signal)
}
