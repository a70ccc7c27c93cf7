/** The options of a worker, checked and with their defaults. */
import { kinds, OptionError } from 'nacre/internal'
import { jobWorkerOptions } from './options.js'

type Values = kinds.CompleteValues<typeof jobWorkerOptions>

export type WorkerSettings = Values & {
  [K in 'name' | 'redis' | 'jobs' | 'host' | 'absence']: NonNullable<Values[K]>
}

/** After a clean end, a deployment may take longer than a lease. */
const ABSENCE_MS = 600_000

/** Checks the options of `new JobWorker`. Throws OptionError. */
export function workerSettings(options: unknown): WorkerSettings {
  const values = kinds.readWithDefaults(jobWorkerOptions, options, 'new JobWorker')
  const { name, redis, jobs, host, lease, absence = Math.max(ABSENCE_MS, lease) } = values
  if (name === undefined || redis === undefined || jobs === undefined || host === undefined)
    throw new OptionError('INVALID_OPTION', 'new JobWorker needs name, redis, jobs and host')
  if (absence < lease)
    throw new OptionError('INVALID_OPTION', `absence must be at least lease, which is ${lease} ms`)
  return { ...values, name, redis, jobs, host, absence }
}
