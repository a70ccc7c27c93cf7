/**
 * Jobs and their states in public form.
 */

import { signalName } from '../base/signals.js'
import type { JobHandle, JobInfo, JobStatus } from '../calls/index.js'
import type { JobRecord, JobState } from './record.js'

export function publicStatus(native: JobState): JobStatus {
  const { state, alive, exitCode, signal, reason, endedAt, duration, outputLost } = native
  return {
    state,
    exitCode: exitCode ?? null,
    signal: signal === undefined ? null : signalName(signal),
    reason: reason ?? null,
    alive,
    endTime: dateOf(endedAt),
    duration: duration ?? null,
    ...(outputLost && { outputLost }),
  }
}

export function publicHandle(native: JobRecord): JobHandle {
  const { jobId, dir, outputFile, exitFile, pgid, cgroup, processName } = native
  const handle = { jobId, dir, outputFile, exitFile, pgid, cgroup: cgroup ?? null }
  return processName === undefined ? handle : { ...handle, processName }
}

export function publicInfo(native: JobRecord): JobInfo {
  const { createdAt, command, status } = native
  if (status === undefined) throw new Error('the engine listed a job without its status')
  return {
    ...publicHandle(native),
    startTime: dateOf(createdAt),
    command: command ?? null,
    status: publicStatus(status),
  }
}

/** The time of a record, which another program may have written. */
function dateOf(text: string | undefined): Date | null {
  const date = new Date(text ?? '')
  return Number.isNaN(date.getTime()) ? null : date
}
