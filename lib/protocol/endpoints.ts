/**
 * The other requests of a client that have one reply: the server takes it and the client sends it by the same entry. Streams
 * of events, downloads and terminals have no reply table, so both ends name their paths.
 */
import * as checkpoints from '../calls/checkpoint.js'
import { processExit, processWaiting } from '../calls/exit.js'
import { fileInfo } from '../calls/files.js'
import type { ProcessInfo } from '../calls/index.js'
import * as jobs from '../calls/jobs.js'
import { logLines, processLogs } from '../calls/logs.js'
import { processInfo } from '../calls/process.js'
import { execResult } from '../calls/result.js'
import { serviceHealth } from '../calls/service.js'
import { sessionById } from '../calls/session.js'
import { resumedOnServer } from '../calls/suspend.js'
import { waitEnd } from '../calls/waits.js'
import {
  type Body,
  boolean,
  date,
  empty,
  list,
  number,
  only,
  optional,
  orNull,
  type ReplyValue,
  reply,
  text,
  wordOf,
} from '../schema/reply.js'
import type { Endpoint } from './endpoint.js'

function endpoint<T, const Path extends string>(
  method: Endpoint<T>['method'],
  path: Path,
  reply: Body<T>,
  time?: 'waits',
): Endpoint<T, Path> {
  return { method, path, reply, waits: time !== undefined }
}

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

export const healthCheck = endpoint('GET', '/healthz', only('status', wordOf('ok')))
export const registerCaller = endpoint('POST', '/v1/callers', only('callerId', text))
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
export const killRun = endpoint('POST', '/v1/runs/{runId}/kill', only('killed', boolean), 'waits')
export const detachRun = endpoint('POST', '/v1/runs/{runId}/detach', namedProcess)
export const runLogs = endpoint('GET', '/v1/runs/{runId}/logs', processLogs)
export const runLines = endpoint('POST', '/v1/runs/{runId}/lines', logLines, 'waits')
export const runWaiting = endpoint('GET', '/v1/runs/{runId}/waiting', only('waiting', orNull(processWaiting)))
export const runWaitFor = endpoint('POST', '/v1/runs/{runId}/wait-for', waitEnd, 'waits')
export const resizeRun = endpoint('POST', '/v1/runs/{runId}/resize', only('resized', boolean))
export const abortRun = endpoint('POST', '/v1/runs/{runId}/abort', empty, 'waits')

export const createSession = endpoint('POST', '/v1/sessions', sessionById)
export const getSession = endpoint('GET', '/v1/sessions/{sessionId}', sessionById)
export const deleteSession = endpoint('DELETE', '/v1/sessions/{sessionId}', empty, 'waits')
export const portLink = endpoint(
  'POST',
  '/v1/port-links',
  reply({ path: text, host: optional(text), expiresAt: date }),
)
export const releaseSession = endpoint('DELETE', '/v1/sessions/{sessionId}/hold', empty)
export const setEnv = endpoint('POST', '/v1/env', empty, 'waits')

export const startProcess = endpoint('POST', '/v1/processes', namedProcess, 'waits')
export const startService = endpoint('POST', '/v1/services', namedProcess, 'waits')
export const listProcesses = endpoint('GET', '/v1/processes', only('processes', list(namedProcess)))

const process = '/v1/processes/{processId}'
export const getProcess = endpoint('GET', process, namedProcess)
export const killProcess = endpoint(
  'POST',
  `${process}/kill`,
  reply({ killed: boolean, process: namedProcess }),
  'waits',
)
export const waitForExit = endpoint(
  'POST',
  `${process}/wait-for-exit`,
  reply({ exit: processExit, process: namedProcess }),
  'waits',
)
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
export const writeToProcess = endpoint('POST', `${process}/input`, empty, 'waits')
export const sendMessage = endpoint('POST', `${process}/messages`, empty, 'waits')
export const disconnect = endpoint('DELETE', `${process}/messages`, empty)
export const releaseProcess = endpoint('DELETE', '/v1/processes/{processId}/hold', empty)
export const resize = endpoint('POST', `${process}/resize`, only('resized', boolean))
export const health = endpoint('GET', `${process}/health`, serviceHealth)
export const restart = endpoint('POST', `${process}/restart`, namedProcess, 'waits')

const files = '/v1/sessions/{sessionId}/files'
export const stat = endpoint('GET', `${files}/stat`, only('file', orNull(fileInfo)))
export const listFiles = endpoint('GET', `${files}/list`, only('files', list(fileInfo)), 'waits')
export const writeFile = endpoint('PUT', `${files}/content`, fileInfo, 'waits')
export const beginUpload = endpoint('POST', `${files}/uploads`, only('uploadId', text), 'waits')
export const uploadPart = endpoint('PUT', '/v1/uploads/{uploadId}', empty, 'waits')
export const endUpload = endpoint('POST', '/v1/uploads/{uploadId}/end', fileInfo, 'waits')
export const cancelUpload = endpoint('DELETE', '/v1/uploads/{uploadId}', empty)

const checkpoint = '/v1/checkpoints/{checkpointId}'
export const rollBack = endpoint('POST', `${checkpoint}/rollback`, checkpoints.rollback, 'waits')
export const undo = endpoint('POST', '/v1/undo', checkpoints.undo, 'waits')

export const resume = endpoint('PUT', '/v1/archive', resumedOnServer, 'waits')

export const startJob = endpoint('POST', '/v1/jobs', jobs.jobHandle)
export const getJob = endpoint('GET', '/v1/jobs/{jobId}', jobs.jobHandle)
export const cancelJob = endpoint('POST', '/v1/jobs/{jobId}/cancel', empty, 'waits')
