/**
 * Every request of a client that has one reply: the server takes it and the client sends it by the same entry. Streams of
 * events, downloads and terminals have no reply table, so both ends name their paths.
 */
import { type Reply, reply, wordOf } from '../schema/reply.js'
import * as replies from './replies.js'

export interface Endpoint<T, Path extends string = string> {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With the names of its parameters in braces. */
  path: Path
  reply: Reply<T>
  /** The reply waits for an event and may take hours: longer than clients and proxies wait for a response. */
  waits: boolean
}

function endpoint<T, const Path extends string>(
  method: Endpoint<T>['method'],
  path: Path,
  reply: Reply<T>,
  time?: 'waits',
): Endpoint<T, Path> {
  return { method, path, reply, waits: time !== undefined }
}

export const healthCheck = endpoint('GET', '/healthz', reply({ status: wordOf('ok') }))
export const capabilities = endpoint('GET', '/v1/capabilities', replies.capabilities)
export const registerCaller = endpoint('POST', '/v1/callers', replies.caller)
export const removeCaller = endpoint('DELETE', '/v1/callers/{callerId}', replies.empty)
export const cancelCall = endpoint('DELETE', '/v1/callers/{callerId}/calls/{number}', replies.empty)

export const exec = endpoint('POST', '/v1/exec', replies.exec, 'waits')
export const writeToRun = endpoint('POST', '/v1/runs/{runId}/input', replies.empty, 'waits')
export const killRun = endpoint('POST', '/v1/runs/{runId}/kill', replies.runKill, 'waits')
export const detachRun = endpoint('POST', '/v1/runs/{runId}/detach', replies.process)
export const abortRun = endpoint('POST', '/v1/runs/{runId}/abort', replies.empty, 'waits')

export const createSession = endpoint('POST', '/v1/sessions', replies.session)
export const listSessions = endpoint('GET', '/v1/sessions', replies.sessions)
export const getSession = endpoint('GET', '/v1/sessions/{sessionId}', replies.session)
export const deleteSession = endpoint('DELETE', '/v1/sessions/{sessionId}', replies.empty, 'waits')
export const history = endpoint('GET', '/v1/sessions/{sessionId}/history', replies.history)
export const setEnv = endpoint('POST', '/v1/env', replies.empty, 'waits')

export const startProcess = endpoint('POST', '/v1/processes', replies.process, 'waits')
export const startService = endpoint('POST', '/v1/services', replies.process, 'waits')
export const listProcesses = endpoint('GET', '/v1/processes', replies.processes)
export const killAllProcesses = endpoint('POST', '/v1/processes/kill-all', replies.count, 'waits')
export const cleanUpProcesses = endpoint('POST', '/v1/processes/cleanup', replies.count)

const process = '/v1/processes/{processId}'
export const getProcess = endpoint('GET', process, replies.process)
export const killProcess = endpoint('POST', `${process}/kill`, replies.kill, 'waits')
export const waitForEnd = endpoint('POST', `${process}/wait`, replies.wait, 'waits')
export const waitForInput = endpoint('POST', `${process}/wait-for-input`, replies.waitingForInput, 'waits')
export const waitForLog = endpoint('POST', `${process}/wait-for-log`, replies.logLine, 'waits')
export const waitForPort = endpoint('POST', `${process}/wait-for-port`, replies.empty, 'waits')
export const logs = endpoint('GET', `${process}/logs`, replies.logs)
export const writeToProcess = endpoint('POST', `${process}/input`, replies.empty, 'waits')
export const resize = endpoint('POST', `${process}/resize`, replies.resize)
export const stats = endpoint('GET', `${process}/stats`, replies.stats)
export const waiting = endpoint('GET', `${process}/waiting`, replies.waiting)
export const health = endpoint('GET', `${process}/health`, replies.health)
export const restart = endpoint('POST', `${process}/restart`, replies.process, 'waits')

const files = '/v1/sessions/{sessionId}/files'
export const stat = endpoint('GET', `${files}/stat`, replies.stat)
export const list = endpoint('GET', `${files}/list`, replies.files, 'waits')
export const mkdir = endpoint('POST', `${files}/mkdir`, replies.empty, 'waits')
export const rename = endpoint('POST', `${files}/rename`, replies.empty, 'waits')
export const copy = endpoint('POST', `${files}/copy`, replies.empty, 'waits')
export const remove = endpoint('POST', `${files}/remove`, replies.empty, 'waits')
export const writeFile = endpoint('PUT', `${files}/content`, replies.fileInfo, 'waits')
export const beginUpload = endpoint('POST', `${files}/uploads`, replies.upload, 'waits')
export const uploadPart = endpoint('PUT', '/v1/uploads/{uploadId}', replies.empty, 'waits')
export const endUpload = endpoint('POST', '/v1/uploads/{uploadId}/end', replies.fileInfo, 'waits')
export const cancelUpload = endpoint('DELETE', '/v1/uploads/{uploadId}', replies.empty)

const workspace = '/v1/workspace'
export const workspaceInfo = endpoint('GET', workspace, replies.workspaceInfo)
export const workspaceChanges = endpoint('POST', `${workspace}/changes`, replies.changes, 'waits')
export const commit = endpoint('POST', `${workspace}/commit`, replies.commit, 'waits')
export const discard = endpoint('POST', `${workspace}/discard`, replies.discard, 'waits')
export const workspaceUsage = endpoint('GET', `${workspace}/usage`, replies.workspaceUsage, 'waits')
export const listWorkspaces = endpoint('GET', '/v1/workspaces', replies.namedWorkspaces)
export const deleteWorkspace = endpoint('DELETE', '/v1/workspaces/{workspaceId}', replies.empty, 'waits')

export const makeCheckpoint = endpoint('POST', '/v1/checkpoints', replies.checkpoint, 'waits')
export const listCheckpoints = endpoint('GET', '/v1/checkpoints', replies.checkpoints, 'waits')
const checkpoint = '/v1/checkpoints/{checkpointId}'
export const deleteCheckpoint = endpoint('DELETE', checkpoint, replies.empty, 'waits')
export const rollBack = endpoint('POST', `${checkpoint}/rollback`, replies.rollback, 'waits')
export const undo = endpoint('POST', '/v1/undo', replies.undo, 'waits')

export const startJob = endpoint('POST', '/v1/jobs', replies.jobHandle)
export const listJobs = endpoint('GET', '/v1/jobs', replies.jobs)
export const getJob = endpoint('GET', '/v1/jobs/{jobId}', replies.jobHandle)
export const removeJob = endpoint('DELETE', '/v1/jobs/{jobId}', replies.empty)
export const jobStatus = endpoint('GET', '/v1/jobs/{jobId}/status', replies.jobStatus)
export const readJob = endpoint('GET', '/v1/jobs/{jobId}/output', replies.jobRead)
export const waitForJob = endpoint('POST', '/v1/jobs/{jobId}/wait', replies.jobStatus, 'waits')
export const cancelJob = endpoint('POST', '/v1/jobs/{jobId}/cancel', replies.empty, 'waits')
