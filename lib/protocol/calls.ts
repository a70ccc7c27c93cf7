/**
 * Every call with options: its table, the interface that types it, and the route that takes it over HTTP.
 *
 * The docs are written from this list, and a test proves that readers, routes, types and docs agree on it.
 */

import type { CallTable } from '../schema/kind.js'
import { limitOptions } from '../schema/process.js'
import { clientOptions } from './client-options.js'
import { containerExecOptions, containerSessionOptions, containerStreamOptions } from './container-options.js'
import { execOptions, sessionExecOptions } from './exec-options.js'
import {
  fileCopyOptions,
  fileListOptions,
  fileReadOptions,
  fileRemoveOptions,
  fileStreamOptions,
  fileWatchOptions,
  fileWriteOptions,
} from './file-options.js'
import {
  fleetCallOptions,
  fleetCreateOptions,
  fleetKubernetesOptions,
  fleetOptions,
  fleetRouterOptions,
} from './fleet-options.js'
import {
  jobCancelOptions,
  jobFollowOptions,
  jobListOptions,
  jobPruneOptions,
  jobReadOptions,
  jobStartOptions,
  jobWaitOptions,
} from './job-options.js'
import { instrumentOptions } from './otel-options.js'
import { killOptions, processOptions, serviceOptions, sessionProcessOptions } from './process-options.js'
import {
  jobQueueOptions,
  jobWorkerOptions,
  queueAddOptions,
  queueCancelOptions,
  queueListOptions,
  queueLogsOptions,
  queueWaitOptions,
} from './queue-options.js'
import { remoteJobsOptions } from './remote-job-options.js'
import { sandboxOptions } from './sandbox-options.js'
import { createServerOptions, sandboxdOptions, serveOptions } from './server-options.js'
import { historyOptions, sessionOptions } from './session-options.js'
import {
  logOptions,
  logStreamOptions,
  portOptions,
  waitForLogOptions,
  waitForPortOptions,
  waitOptions,
} from './wait-options.js'

export interface Call {
  /** As the docs show it. */
  name: string
  table: CallTable
  /** The interface of the public types with the same members. */
  type: string
  /** The entry point of that interface, where another one has an interface of the same name. */
  module?: 'container'
  /** Where the JSON body with these options goes. */
  route?: string
  /** It is never sent. */
  local?: true
  /** Members of the type and the body that no table has: values with alternatives of their own. */
  beside?: readonly string[]
}

export const calls: readonly Call[] = [
  { name: 'new Sandbox', table: sandboxOptions, type: 'SandboxOptions', local: true },
  { name: 'new SandboxClient', table: clientOptions, type: 'ClientOptions', local: true },
  { name: 'instrument', table: instrumentOptions, type: 'InstrumentOptions', local: true },
  { name: 'exec and execStream', table: execOptions, type: 'ExecOptions', route: '/v1/exec' },
  { name: 'session.exec and session.execStream', table: sessionExecOptions, type: 'SessionExecOptions' },
  { name: 'startProcess', table: processOptions, type: 'ProcessOptions', route: '/v1/processes' },
  { name: 'session.startProcess', table: sessionProcessOptions, type: 'SessionProcessOptions' },
  {
    name: 'startService',
    table: serviceOptions,
    type: 'ServiceOptions',
    route: '/v1/services',
    beside: ['healthCheck'],
  },
  { name: 'limits', table: limitOptions, type: 'Limits' },
  { name: 'createSession', table: sessionOptions, type: 'SessionOptions', route: '/v1/sessions' },
  { name: 'session.history', table: historyOptions, type: 'HistoryOptions' },
  { name: 'kill', table: killOptions, type: 'KillOptions', route: '/v1/processes/{processId}/kill' },
  { name: 'wait', table: waitOptions, type: 'WaitOptions', route: '/v1/processes/{processId}/wait' },
  {
    name: 'waitForLog',
    table: waitForLogOptions,
    type: 'WaitForLogOptions',
    route: '/v1/processes/{processId}/wait-for-log',
  },
  { name: 'a health check by port', table: portOptions, type: 'PortOptions' },
  {
    name: 'waitForPort',
    table: waitForPortOptions,
    type: 'WaitForPortOptions',
    route: '/v1/processes/{processId}/wait-for-port',
  },
  { name: 'getLogs', table: logOptions, type: 'LogOptions' },
  { name: 'output and streamProcessLogs', table: logStreamOptions, type: 'LogStreamOptions' },
  { name: 'files.read', table: fileReadOptions, type: 'FileReadOptions' },
  { name: 'files.readStream', table: fileStreamOptions, type: 'FileStreamOptions' },
  { name: 'files.write', table: fileWriteOptions, type: 'FileWriteOptions' },
  { name: 'files.list', table: fileListOptions, type: 'FileListOptions' },
  {
    name: 'files.copy',
    table: fileCopyOptions,
    type: 'FileCopyOptions',
    route: '/v1/sessions/{sessionId}/files/copy',
  },
  {
    name: 'files.remove',
    table: fileRemoveOptions,
    type: 'FileRemoveOptions',
    route: '/v1/sessions/{sessionId}/files/remove',
  },
  { name: 'files.watch', table: fileWatchOptions, type: 'FileWatchOptions' },
  { name: 'jobs.start', table: jobStartOptions, type: 'JobStartOptions', route: '/v1/jobs' },
  { name: 'jobs.read', table: jobReadOptions, type: 'JobReadOptions' },
  { name: 'jobs.follow', table: jobFollowOptions, type: 'JobFollowOptions' },
  { name: 'jobs.wait', table: jobWaitOptions, type: 'JobWaitOptions' },
  { name: 'jobs.list', table: jobListOptions, type: 'JobFilter' },
  { name: 'jobs.prune', table: jobPruneOptions, type: 'JobPruneOptions' },
  {
    name: 'jobs.cancel',
    table: jobCancelOptions,
    type: 'JobCancelOptions',
    route: '/v1/jobs/{jobId}/cancel',
  },
  { name: 'createSandboxJobs', table: remoteJobsOptions, type: 'SandboxJobsOptions', local: true },
  { name: 'new JobQueue', table: jobQueueOptions, type: 'JobQueueOptions', local: true },
  { name: 'queue.add', table: queueAddOptions, type: 'QueueAddOptions', local: true },
  { name: 'queue.wait', table: queueWaitOptions, type: 'QueueWaitOptions', local: true },
  { name: 'queue.cancel', table: queueCancelOptions, type: 'QueueCancelOptions', local: true },
  { name: 'queue.logs', table: queueLogsOptions, type: 'QueueLogsOptions', local: true },
  { name: 'queue.list', table: queueListOptions, type: 'QueueListOptions', local: true },
  { name: 'new JobWorker', table: jobWorkerOptions, type: 'JobWorkerOptions', local: true },
  { name: 'createServer', table: createServerOptions, type: 'CreateServerOptions', local: true },
  { name: 'serve', table: serveOptions, type: 'ServeOptions', local: true },
  { name: 'sandboxd of serve', table: sandboxdOptions, type: 'SandboxdOptions', local: true },
  { name: 'new SandboxFleet', table: fleetOptions, type: 'FleetOptions', local: true },
  { name: 'kubernetes of a fleet', table: fleetKubernetesOptions, type: 'FleetKubernetes', local: true },
  { name: 'kubernetes.router of a fleet', table: fleetRouterOptions, type: 'FleetRouter', local: true },
  { name: 'fleet.create', table: fleetCreateOptions, type: 'FleetCreateOptions', local: true },
  {
    name: 'fleet.get, fleet.list and fleet.delete',
    table: fleetCallOptions,
    type: 'FleetCallOptions',
    local: true,
  },
  {
    name: 'new Session of nacre/container',
    table: containerSessionOptions,
    type: 'SessionOptions',
    module: 'container',
    local: true,
  },
  {
    name: 'exec of nacre/container',
    table: containerExecOptions,
    type: 'ExecOptions',
    module: 'container',
    local: true,
  },
  {
    name: 'execStream of nacre/container',
    table: containerStreamOptions,
    type: 'StreamOptions',
    module: 'container',
    local: true,
  },
]
