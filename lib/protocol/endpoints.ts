/**
 * Every request of a client that has one reply: the server takes it and the client sends it by the same entry. Streams of
 * events, downloads and terminals have no reply table, so both ends name their paths.
 */
import * as checkpoints from '../calls/checkpoint.js'
import { processExit, processWaiting } from '../calls/exit.js'
import { fileInfo } from '../calls/files.js'
import type { ProcessInfo } from '../calls/index.js'
import * as jobs from '../calls/jobs.js'
import { logLines as logLinesReply, processLogs } from '../calls/logs.js'
import { openPort } from '../calls/ports.js'
import { processInfo } from '../calls/process.js'
import { question } from '../calls/questions.js'
import { execResult } from '../calls/result.js'
import * as sandboxes from '../calls/sandbox.js'
import { serviceHealth } from '../calls/service.js'
import { historyEntry, runningCommand } from '../calls/session.js'
import * as measured from '../calls/stats.js'
import { waitEnd } from '../calls/waits.js'
import * as workspaces from '../calls/workspace.js'
import {
  boolean,
  date,
  list,
  number,
  optional,
  orNull,
  type Reply,
  type ReplyValue,
  reply,
  text,
  wordOf,
} from '../schema/reply.js'

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

/** Of requests that have no result. */
const empty = reply({}) as unknown as Reply<void>
const count = reply({ count: number })
const session = reply({ id: text }, 'Session')

/** A process by id, and by what no other process has, not even with the same id. */
export interface NamedProcess extends ProcessInfo {
  readonly instance: string
}

const namedProcess = reply<NamedProcess>(
  {
    ...processInfo.fields,
    instance: {
      ...text,
      description: 'Names this process for ever, as `id~instance` in a path: its id can be used again.',
    },
  },
  'Process',
)

export const healthCheck = endpoint('GET', '/healthz', reply({ status: wordOf('ok') }))
export const capabilities = endpoint('GET', '/v1/capabilities', sandboxes.capabilities)
export const sandboxStats = endpoint('GET', '/v1/stats', measured.sandboxStats)
export const registerCaller = endpoint('POST', '/v1/callers', reply({ callerId: text }))
export const removeCaller = endpoint('DELETE', '/v1/callers/{callerId}', empty)
export const cancelCall = endpoint('DELETE', '/v1/callers/{callerId}/calls/{number}', empty)

export const exec = endpoint(
  'POST',
  '/v1/exec',
  reply<{ result: ReplyValue<typeof execResult>; process: NamedProcess | undefined }>({
    result: execResult,
    process: {
      ...optional(namedProcess),
      description: 'The process that the command has become because of `detachAfter`.',
    },
  }),
  'waits',
)
export const writeToRun = endpoint('POST', '/v1/runs/{runId}/input', empty, 'waits')
export const killRun = endpoint('POST', '/v1/runs/{runId}/kill', reply({ killed: boolean }), 'waits')
export const detachRun = endpoint('POST', '/v1/runs/{runId}/detach', namedProcess)
export const runLogs = endpoint('GET', '/v1/runs/{runId}/logs', processLogs)
export const runLines = endpoint('POST', '/v1/runs/{runId}/lines', logLinesReply, 'waits')
export const runWaiting = endpoint(
  'GET',
  '/v1/runs/{runId}/waiting',
  reply({ waiting: orNull(processWaiting) }),
)
export const runWaitFor = endpoint('POST', '/v1/runs/{runId}/wait-for', waitEnd, 'waits')
export const resizeRun = endpoint('POST', '/v1/runs/{runId}/resize', reply({ resized: boolean }))
export const abortRun = endpoint('POST', '/v1/runs/{runId}/abort', empty, 'waits')

export const createSession = endpoint('POST', '/v1/sessions', session)
export const listSessions = endpoint('GET', '/v1/sessions', reply({ sessions: list(session) }))
export const getSession = endpoint('GET', '/v1/sessions/{sessionId}', session)
export const deleteSession = endpoint('DELETE', '/v1/sessions/{sessionId}', empty, 'waits')
export const history = endpoint(
  'GET',
  '/v1/sessions/{sessionId}/history',
  reply({ commands: list(historyEntry) }),
)
export const running = endpoint(
  'GET',
  '/v1/sessions/{sessionId}/running',
  reply({ commands: list(runningCommand) }),
)
export const killCommand = endpoint(
  'POST',
  '/v1/sessions/{sessionId}/commands/{commandId}/kill',
  reply({ killed: boolean }),
  'waits',
)
const openPorts = reply({ ports: list(openPort) })
export const listPorts = endpoint('GET', '/v1/ports', openPorts)
export const portLink = endpoint('POST', '/v1/port-links', reply({ path: text, expiresAt: date }))
export const listSessionPorts = endpoint('GET', '/v1/sessions/{sessionId}/ports', openPorts)
export const listQuestions = endpoint('GET', '/v1/questions', reply({ questions: list(question) }))
export const answerQuestion = endpoint('POST', '/v1/questions/{questionId}', reply({ answered: boolean }))
export const releaseSession = endpoint('DELETE', '/v1/sessions/{sessionId}/hold', empty)
export const sessionStats = endpoint('GET', '/v1/sessions/{sessionId}/stats', measured.sessionStats)
export const setEnv = endpoint('POST', '/v1/env', empty, 'waits')

export const startProcess = endpoint('POST', '/v1/processes', namedProcess, 'waits')
export const startService = endpoint('POST', '/v1/services', namedProcess, 'waits')
export const listProcesses = endpoint('GET', '/v1/processes', reply({ processes: list(namedProcess) }))
export const killAllProcesses = endpoint('POST', '/v1/processes/kill-all', count, 'waits')
export const cleanUpProcesses = endpoint('POST', '/v1/processes/cleanup', count)

const process = '/v1/processes/{processId}'
export const getProcess = endpoint('GET', process, namedProcess)
export const killProcess = endpoint(
  'POST',
  `${process}/kill`,
  reply({ killed: boolean, process: namedProcess }),
  'waits',
)
export const waitForEnd = endpoint(
  'POST',
  `${process}/wait`,
  reply({ exit: processExit, process: namedProcess }),
  'waits',
)
export const waitForInput = endpoint('POST', `${process}/wait-for-input`, processWaiting, 'waits')
export const waitFor = endpoint('POST', `${process}/wait-for`, waitEnd, 'waits')
/** A line of a log, and where a regular expression matches. */
export interface FoundLine {
  line: string
  /** The text that matches, if that is not the line. */
  input?: string
  /** Of a regular expression: where the match and each group begin and end in it, in code units; -1 for a group without part. */
  spans?: number[]
}
const foundLine = reply<FoundLine>({ line: text, input: optional(text), spans: optional(list(number)) })
export const waitForLog = endpoint('POST', `${process}/wait-for-log`, foundLine, 'waits')
export const waitForPort = endpoint('POST', `${process}/wait-for-port`, empty, 'waits')
export const logs = endpoint('GET', `${process}/logs`, processLogs)
export const logLines = endpoint('POST', `${process}/lines`, logLinesReply, 'waits')
export const writeToProcess = endpoint('POST', `${process}/input`, empty, 'waits')
export const releaseProcess = endpoint('DELETE', '/v1/processes/{processId}/hold', empty)
export const resize = endpoint('POST', `${process}/resize`, reply({ resized: boolean }))
export const stats = endpoint('GET', `${process}/stats`, measured.processStats)
export const waiting = endpoint('GET', `${process}/waiting`, reply({ waiting: orNull(processWaiting) }))
export const health = endpoint('GET', `${process}/health`, serviceHealth)
export const restart = endpoint('POST', `${process}/restart`, namedProcess, 'waits')

const files = '/v1/sessions/{sessionId}/files'
export const stat = endpoint('GET', `${files}/stat`, reply({ file: orNull(fileInfo) }))
export const listFiles = endpoint('GET', `${files}/list`, reply({ files: list(fileInfo) }), 'waits')
export const mkdir = endpoint('POST', `${files}/mkdir`, empty, 'waits')
export const rename = endpoint('POST', `${files}/rename`, empty, 'waits')
export const copy = endpoint('POST', `${files}/copy`, empty, 'waits')
export const remove = endpoint('POST', `${files}/remove`, empty, 'waits')
export const writeFile = endpoint('PUT', `${files}/content`, fileInfo, 'waits')
export const beginUpload = endpoint('POST', `${files}/uploads`, reply({ uploadId: text }), 'waits')
export const uploadPart = endpoint('PUT', '/v1/uploads/{uploadId}', empty, 'waits')
export const endUpload = endpoint('POST', '/v1/uploads/{uploadId}/end', fileInfo, 'waits')
export const cancelUpload = endpoint('DELETE', '/v1/uploads/{uploadId}', empty)

const workspace = '/v1/workspace'
export const workspaceInfo = endpoint(
  'GET',
  workspace,
  reply<{ path: string; id: string | null }>({ path: text, id: orNull(text) }),
)
export const workspaceChanges = endpoint(
  'POST',
  `${workspace}/changes`,
  reply({ changes: list(workspaces.change) }),
  'waits',
)
export const commit = endpoint('POST', `${workspace}/commit`, workspaces.commit, 'waits')
export const discard = endpoint('POST', `${workspace}/discard`, reply({ discarded: number }), 'waits')
export const workspaceUsage = endpoint('GET', `${workspace}/usage`, workspaces.workspaceUsage, 'waits')
export const listWorkspaces = endpoint(
  'GET',
  '/v1/workspaces',
  reply({ workspaces: list(workspaces.namedWorkspace) }),
)
export const deleteWorkspace = endpoint('DELETE', '/v1/workspaces/{workspaceId}', empty, 'waits')

export const makeCheckpoint = endpoint('POST', '/v1/checkpoints', checkpoints.checkpoint, 'waits')
export const listCheckpoints = endpoint(
  'GET',
  '/v1/checkpoints',
  reply({ checkpoints: list(checkpoints.checkpoint) }),
  'waits',
)
const checkpoint = '/v1/checkpoints/{checkpointId}'
export const deleteCheckpoint = endpoint('DELETE', checkpoint, empty, 'waits')
export const rollBack = endpoint('POST', `${checkpoint}/rollback`, checkpoints.rollback, 'waits')
export const undo = endpoint('POST', '/v1/undo', checkpoints.undo, 'waits')

export const startJob = endpoint('POST', '/v1/jobs', jobs.jobHandle)
export const listJobs = endpoint('GET', '/v1/jobs', reply({ jobs: list(jobs.jobInfo) }))
export const getJob = endpoint('GET', '/v1/jobs/{jobId}', jobs.jobHandle)
export const removeJob = endpoint('DELETE', '/v1/jobs/{jobId}', empty)
export const jobStatus = endpoint('GET', '/v1/jobs/{jobId}/status', jobs.jobStatus)
export const readJob = endpoint('GET', '/v1/jobs/{jobId}/output', jobs.jobRead)
export const waitForJob = endpoint('POST', '/v1/jobs/{jobId}/wait', jobs.jobStatus, 'waits')
export const cancelJob = endpoint('POST', '/v1/jobs/{jobId}/cancel', empty, 'waits')
