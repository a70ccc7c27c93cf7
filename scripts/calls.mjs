/** Every call of nacre with options: its table, and the route that takes it over HTTP. The docs are written from this list. */

import { forkOptions } from '../dist/calls/checkpoint.js'
import { clientOptions } from '../dist/calls/client.js'
import {
  containerExecOptions,
  containerSessionOptions,
  containerStreamOptions,
} from '../dist/calls/container.js'
import { connectProgramOptions, engineMountOptions, openSandboxOptions } from '../dist/calls/engine.js'
import { eventOptions } from '../dist/calls/events.js'
import { execOptions, sessionExecOptions } from '../dist/calls/exec.js'
import { killReason } from '../dist/calls/exit.js'
import {
  fileListOptions,
  fileReadOptions,
  fileStatOptions,
  fileStreamOptions,
  fileTransferOptions,
  fileWatchOptions,
  fileWriteOptions,
} from '../dist/calls/files.js'
import { filesystemOptions, isolationOptions, mountOptions, networkOptions } from '../dist/calls/isolation.js'
import {
  jobCancelOptions,
  jobFollowOptions,
  jobListOptions,
  jobPruneOptions,
  jobStartOptions,
} from '../dist/calls/jobs.js'
import { limitOptions } from '../dist/calls/limits.js'
import { logStreamOptions } from '../dist/calls/logs.js'
import { mergeOptions } from '../dist/calls/merge.js'
import { instrumentOptions } from '../dist/calls/otel.js'
import { portUrlOptions, sandboxForwardOptions } from '../dist/calls/ports.js'
import { killOptions, processOptions, sessionProcessOptions } from '../dist/calls/process.js'
import { programOptions } from '../dist/calls/programs.js'
import { sandboxOptions, setEnvVarsOptions } from '../dist/calls/sandbox.js'
import { secretOptions } from '../dist/calls/secrets.js'
import { serviceOptions, sessionServiceOptions } from '../dist/calls/service.js'
import { sessionOptions } from '../dist/calls/session.js'
import { archiveOptions, suspendOptions } from '../dist/calls/suspend.js'
import { portOptions, waitForLogOptions, waitForPortOptions, waitOptions } from '../dist/calls/waits.js'
import { workspaceDiffOptions, workspaceOptions } from '../dist/calls/workspace.js'
import { sendable } from '../dist/protocol/codec.js'
import {
  backendCalls,
  checkpointCalls,
  fileCalls,
  jobCalls,
  processCalls,
  workspaceCalls,
} from '../dist/protocol/simple-calls.js'

/** A simple call as the docs show it. */
function of({ name, method, path, options }) {
  const hasBody = method === 'POST' && sendable(options).length > 0
  return { name, table: options, ...(hasBody && { route: path }) }
}

/** @type {readonly import('../dist/protocol/endpoint.js').Call[]} */
export const calls = [
  { name: 'new Sandbox', table: sandboxOptions, local: true },
  { name: 'new SandboxClient', table: clientOptions, local: true },
  { name: 'openSandbox', table: openSandboxOptions, local: true },
  { name: 'mounts of openSandbox', table: engineMountOptions, local: true },
  { name: 'connectProgram', table: connectProgramOptions, local: true },
  { name: 'instrument', table: instrumentOptions, local: true },
  { name: 'limits', table: limitOptions },
  { name: 'createSession', table: sessionOptions, route: '/v1/sessions' },
  { name: 'setEnvVars', table: setEnvVarsOptions, route: '/v1/env' },
  of(backendCalls.history),
  of(backendCalls.why),
  { name: 'forward', table: sandboxForwardOptions, local: true },
  { name: 'portUrl', table: portUrlOptions, route: '/v1/port-links' },
  { name: 'isolation', table: isolationOptions },
  { name: 'isolation.filesystem', table: filesystemOptions },
  { name: 'isolation.filesystem.mounts', table: mountOptions },
  { name: 'isolation.network', table: networkOptions },
  { name: 'isolation.network.programs', table: programOptions },
  { name: 'isolation.network.secrets', table: secretOptions },
  { name: 'exec and execStream', table: execOptions, route: '/v1/exec/stream' },
  { name: 'session.exec and session.execStream', table: sessionExecOptions },
  { name: 'new Session of nacre/container', table: containerSessionOptions, local: true },
  { name: 'exec of nacre/container', table: containerExecOptions, local: true },
  { name: 'execStream of nacre/container', table: containerStreamOptions, local: true },
  { name: 'startProcess', table: processOptions, route: '/v1/processes' },
  { name: 'session.startProcess', table: sessionProcessOptions },
  { name: 'startService', table: serviceOptions, route: '/v1/services' },
  { name: 'session.startService', table: sessionServiceOptions },
  { name: 'kill of execStream, and session.killCommand', table: killReason, route: '/v1/runs/{runId}/kill' },
  { name: 'kill', table: killOptions, route: '/v1/processes/{processId}/kill' },
  {
    name: 'waitForExit and waitForInput',
    table: waitOptions,
    route: '/v1/processes/{processId}/wait-for-exit',
  },
  of(processCalls.waitFor),
  { name: 'waitForLog', table: waitForLogOptions, route: '/v1/processes/{processId}/wait-for-log' },
  { name: 'a health check by port', table: portOptions, route: '/v1/services' },
  { name: 'waitForPort', table: waitForPortOptions, route: '/v1/processes/{processId}/wait-for-port' },
  { name: 'events', table: eventOptions },
  of(processCalls.logs),
  of(processCalls.logLines),
  { name: 'output and streamProcessLogs', table: logStreamOptions },
  { name: 'files.read', table: fileReadOptions },
  { name: 'files.readStream', table: fileStreamOptions },
  { name: 'files.write', table: fileWriteOptions },
  { name: 'files.copyIn and files.copyOut', table: fileTransferOptions, local: true },
  { name: 'files.list', table: fileListOptions },
  { name: 'files.stat', table: fileStatOptions },
  of(fileCalls.copy),
  of(fileCalls.remove),
  { name: 'files.watch', table: fileWatchOptions },
  { name: 'jobs.start', table: jobStartOptions, route: '/v1/jobs' },
  of(jobCalls.read),
  { name: 'jobs.follow', table: jobFollowOptions },
  of(jobCalls.wait),
  { name: 'jobs.list', table: jobListOptions },
  { name: 'jobs.prune', table: jobPruneOptions },
  { name: 'jobs.cancel', table: jobCancelOptions, route: '/v1/jobs/{jobId}/cancel' },
  { name: 'workspace', table: workspaceOptions, local: true },
  of(checkpointCalls.make),
  { name: 'fork', table: forkOptions, local: true },
  { name: 'Sandbox.merge', table: mergeOptions, local: true },
  { name: 'suspend', table: suspendOptions, local: true },
  { name: 'Sandbox.resume', table: archiveOptions, local: true },
  of(workspaceCalls.changes),
  { name: 'workspace.diff', table: workspaceDiffOptions, route: '/v1/workspace/diff' },
  of(workspaceCalls.review),
  of(workspaceCalls.commit),
  of(workspaceCalls.discard),
]
