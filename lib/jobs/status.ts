/**
 * Jobs and their states as callers see them.
 */

import { signalName } from '../base/signals.js'
import type { JobHandle, JobInfo, JobStatus } from '../public/index.js'
import type { JobRecord, JobState } from './record.js'

export function publicStatus(native: JobState): JobStatus {
  const { state, alive, exitCode, signal, reason, endedAt, duration, outputLost } = native
  return {
    state,
    exitCode: exitCode ?? null,
    ...(signal !== undefined && { signal: signalName(signal) }),
    ...(reason !== undefined && { reason }),
    alive,
    ...(endedAt !== undefined && { endedAt }),
    ...(duration !== undefined && { duration }),
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
  if (status === undefined) throw new Error('the engine lists a job without its status')
  return {
    ...publicHandle(native),
    createdAt,
    ...(command !== undefined && { command }),
    status: publicStatus(status),
  }
}
