/** The options of a worker, checked and with their defaults. */
import { OptionError, type OptionValues, readOptions } from 'nacre/internal'
import { jobWorkerOptions as table } from './options.js'

type Given = OptionValues<typeof table>
type WithDefault =
  | 'prefix'
  | 'concurrency'
  | 'lease'
  | 'lockDuration'
  | 'stalledInterval'
  | 'progressInterval'
  | 'retention'
type Required_ = 'name' | 'redis' | 'jobs' | 'host' | 'absence'

export type WorkerSettings = Given & { [K in WithDefault | Required_]-?: NonNullable<Given[K]> }

/** After a clean end, a deployment may take longer than a lease. */
const ABSENCE_MS = 600_000

/** Checks the options of `new JobWorker`. Throws OptionError. */
export function workerSettings(options: unknown): WorkerSettings {
  const given = readOptions(table, options, 'new JobWorker')
  const { name, redis, jobs, host } = given
  if (name === undefined || redis === undefined || jobs === undefined || host === undefined)
    throw new OptionError('INVALID_OPTION', 'new JobWorker needs name, redis, jobs and host')
  const {
    prefix = table.prefix.default,
    concurrency = table.concurrency.default,
    lease = table.lease.default,
    absence = Math.max(ABSENCE_MS, lease),
    lockDuration = table.lockDuration.default,
    stalledInterval = table.stalledInterval.default,
    progressInterval = table.progressInterval.default,
    retention = table.retention.default,
  } = given
  if (absence < lease)
    throw new OptionError('INVALID_OPTION', `absence must be at least lease, which is ${lease} ms`)
  return {
    ...given,
    name,
    redis,
    jobs,
    host,
    prefix,
    concurrency,
    lease,
    absence,
    lockDuration,
    stalledInterval,
    progressInterval,
    retention,
  }
}
