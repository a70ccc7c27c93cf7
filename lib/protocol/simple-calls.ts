/**
 * The simple calls, by the names of their methods in `sandbox/backend.ts`. The client has a method and the server a route for
 * each of them (`simple-calls.ts` of both); in this process, `backends/native` has the method.
 */
import { checkpoint, checkpointOptions } from '../calls/checkpoint.js'
import { killReason, processWaiting } from '../calls/exit.js'
import { fileCopyOptions, fileRemoveOptions, fileWriteOptions } from '../calls/files.js'
import { denial, wanted } from '../calls/isolation.js'
import { jobInfo, jobRead, jobReadOptions, jobStatus, jobWaitOptions } from '../calls/jobs.js'
import { logLines, logLinesOptions, logOptions, processLogs } from '../calls/logs.js'
import { openPort } from '../calls/ports.js'
import { messagesOptions } from '../calls/process.js'
import { answer, question } from '../calls/questions.js'
import { capabilities } from '../calls/sandbox.js'
import { historyEntry, historyOptions, runningCommand, sessionById, whyOptions } from '../calls/session.js'
import { processStats, sandboxStats, sessionStats } from '../calls/stats.js'
import { serverArchive, suspendedOnServer, suspendOptions } from '../calls/suspend.js'
import { waitEnd, waitForOptions, waitOptions } from '../calls/waits.js'
import {
  blame,
  change,
  commit,
  namedWorkspace,
  review,
  workspaceChangesOptions,
  workspaceCommitOptions,
  workspaceDiscardOptions,
  workspaceReviewOptions,
  workspaceUsage,
} from '../calls/workspace.js'
import { bytes } from '../schema/numbers.js'
import { sandboxPath } from '../schema/paths.js'
import { boolean, empty, list, number, only, orNull, reply, text } from '../schema/reply.js'
import { killSignal } from '../schema/signals.js'
import { flag } from '../schema/values.js'
import { simple } from './endpoint.js'
import { receivedMessages } from './messages.js'

/** It ends early, and can be sent again. */
const repeated = (subject: string) => ({ subject, isIdempotent: true, waits: true }) as const
/** It ends early only on the server. */
const cancelled = (subject: string) => ({ subject, isCancelled: true, waits: true }) as const
/** A second request would start its times again. */
const waiting = { subject: 'the wait', waits: true } as const

const ofSession = { errors: ['SESSION_NOT_FOUND', 'INVALID_ID'] }

export const sessionCalls = {
  listSessions: simple('GET', '/v1/sessions', only('sessions', list(sessionById)), {
    summary: 'Lists the sessions.',
  }),
  history: simple('GET', '/v1/sessions/{sessionId}/history', only('commands', list(historyEntry)), {
    summary: 'Lists the last commands of a session, oldest first.',
    ...{ name: 'session.history', options: historyOptions },
    ...ofSession,
  }),
  running: simple('GET', '/v1/sessions/{sessionId}/running', only('commands', list(runningCommand)), {
    summary: 'Lists the running command of a session and those that wait, in their order.',
    ...ofSession,
  }),
  sessionStats: simple('GET', '/v1/sessions/{sessionId}/stats', sessionStats, {
    summary: 'Returns the processor time, memory, processes and open files of a session.',
    ...ofSession,
  }),
  denials: simple('GET', '/v1/sessions/{sessionId}/denials', only('denials', list(denial)), {
    summary: 'Lists what isolation has refused in a session, oldest first.',
    ...ofSession,
  }),
  why: simple('POST', '/v1/sessions/{sessionId}/why', only('denials', list(denial)), {
    summary: 'Returns what the rules of a session refuse of a path, or of a host and port.',
    ...{ name: 'session.why', args: { target: wanted }, required: ['target'], options: whyOptions },
    errors: [...ofSession.errors, 'ISOLATION_UNSUPPORTED'],
  }),
  killCommand: simple('POST', '/v1/sessions/{sessionId}/commands/{commandId}/kill', only('killed', boolean), {
    summary: 'Kills a running command, or removes a waiting one, by its id among those that run.',
    ...{ name: 'session.killCommand', args: { signal: killSignal }, options: killReason },
    ...ofSession,
    waits: true,
  }),
}

export const portCalls = {
  sessionPorts: simple('GET', '/v1/sessions/{sessionId}/ports', only('ports', list(openPort)), {
    summary: 'Lists the TCP ports on which programs of a session listen.',
    ...ofSession,
  }),
  ports: simple('GET', '/v1/ports', only('ports', list(openPort)), {
    summary: 'Lists the TCP ports on which programs of all sessions listen.',
  }),
}

export const questionCalls = {
  questions: simple('GET', '/v1/questions', only('questions', list(question)), {
    summary: 'Lists the questions about hosts that are open, the oldest first.',
  }),
  answer: simple('POST', '/v1/questions/{questionId}', only('answered', boolean), {
    summary:
      'Answers a question: allows its target for the running command or for the session, or refuses it.',
    ...{ args: { answer }, required: ['answer'] },
    errors: ['INVALID_ID'],
  }),
}

export const processesCalls = {
  killAllProcesses: simple('POST', '/v1/processes/kill-all', only('count', number), {
    summary: 'Kills all processes.',
    waits: true,
  }),
  cleanUpProcesses: simple('POST', '/v1/processes/cleanup', only('count', number), {
    summary: 'Removes ended processes from the list.',
  }),
}

export const machineCalls = {
  capabilities: simple('GET', '/v1/capabilities', capabilities, {
    summary: 'Returns the capabilities of the machine.',
  }),
  stats: simple('GET', '/v1/stats', sandboxStats, {
    summary: 'Returns the processor time, memory, processes and open files of all sessions.',
  }),
}

/** The methods of a backend itself. */
export const backendCalls = {
  ...sessionCalls,
  ...portCalls,
  ...questionCalls,
  ...processesCalls,
  ...machineCalls,
}

const opening = [
  'WORKSPACE_NOT_ENABLED',
  'WORKSPACE_UNSUPPORTED',
  'WORKSPACE_IN_USE',
  'WORKSPACE_LOST',
  'LIMIT_UNSUPPORTED',
]
const applying = ['INVALID_PATH', 'FILE_NOT_FOUND', 'WORKSPACE_BUSY', 'NO_SPACE', 'PERMISSION_DENIED']

export const workspaceCalls = {
  info: simple(
    'GET',
    '/v1/workspace',
    reply<{ path: string; id: string | null }>({ path: text, id: orNull(text) }),
    {
      summary: 'Returns the directory and the name of the workspace.',
      errors: ['WORKSPACE_NOT_ENABLED'],
    },
  ),
  changes: simple('POST', '/v1/workspace/changes', only('changes', list(change)), {
    summary: 'Lists what differs from the real directory.',
    ...{ name: 'workspace.changes', options: workspaceChangesOptions },
    errors: [...opening, 'INVALID_PATH'],
    ...repeated('the comparison'),
  }),
  review: simple('POST', '/v1/workspace/review', review, {
    summary: 'Groups what differs from the real directory, with the hunks of texts.',
    ...{ name: 'workspace.review', options: workspaceReviewOptions },
    errors: [...opening, 'INVALID_PATH', 'FILE_TOO_LARGE', 'PERMISSION_DENIED'],
    ...repeated('the comparison'),
  }),
  blame: simple('POST', '/v1/workspace/blame', only('blame', orNull(blame)), {
    summary: 'Returns the command that has last written a path, from the steps that are kept.',
    ...{ args: { path: sandboxPath }, required: ['path'] },
    errors: [...opening, 'INVALID_PATH'],
    waits: true,
  }),
  commit: simple('POST', '/v1/workspace/commit', commit, {
    summary: 'Applies changes to the real directory. Ends early only while it waits for running commands.',
    ...{ name: 'workspace.commit', options: workspaceCommitOptions },
    errors: [...opening, 'WORKSPACE_CONFLICT', ...applying],
    ...cancelled('the commit'),
  }),
  discard: simple('POST', '/v1/workspace/discard', reply({ discarded: number }), {
    summary: 'Takes changes back. Ends early only while it waits for running commands.',
    ...{ name: 'workspace.discard', options: workspaceDiscardOptions },
    errors: [...opening, ...applying],
    ...cancelled('the discard'),
  }),
  usage: simple('GET', '/v1/workspace/usage', workspaceUsage, {
    summary: 'Measures the layers.',
    errors: opening,
    waits: true,
  }),
  list: simple('GET', '/v1/workspaces', only('workspaces', list(namedWorkspace)), {
    summary: 'Lists the workspaces with a name whose layers are in the same directory.',
  }),
  delete: simple('DELETE', '/v1/workspaces/{workspaceId}', empty, {
    summary: 'Deletes a workspace with a name, and its changes.',
    errors: ['FILE_NOT_FOUND', 'WORKSPACE_IN_USE', 'INVALID_ID'],
    waits: true,
  }),
}

export const checkpointCalls = {
  make: simple('POST', '/v1/checkpoints', checkpoint, {
    summary:
      'Keeps the files of the workspace and the state of every session. Ends early only while it waits for running commands.',
    ...{ name: 'checkpoint', options: checkpointOptions },
    errors: [
      ...['WORKSPACE_NOT_ENABLED', 'WORKSPACE_UNSUPPORTED', 'WORKSPACE_IN_USE', 'WORKSPACE_LOST'],
      ...['WORKSPACE_BUSY', 'NO_SPACE'],
    ],
    ...cancelled('the checkpoint'),
  }),
  list: simple('GET', '/v1/checkpoints', only('checkpoints', list(checkpoint)), {
    summary: 'Lists the checkpoints, the oldest first, without automatic ones.',
    errors: ['WORKSPACE_NOT_ENABLED'],
    waits: true,
  }),
  delete: simple('DELETE', '/v1/checkpoints/{checkpointId}', empty, {
    summary: 'Deletes a checkpoint.',
    errors: ['WORKSPACE_NOT_ENABLED', 'CHECKPOINT_NOT_FOUND'],
    waits: true,
  }),
}

/** A sandbox as a file of its server. */
export const archiveCalls = {
  suspend: simple('POST', '/v1/suspend', suspendedOnServer, {
    summary:
      'Writes the sandbox to an archive on the server, and ends it. Ends early only while it waits for running commands.',
    ...{ name: 'suspend', options: suspendOptions },
    errors: ['WORKSPACE_BUSY', 'ISOLATION_UNSUPPORTED', 'STATE_DIR_UNAVAILABLE', 'NO_SPACE', 'NOT_FOUND'],
    ...cancelled('the suspension'),
  }),
  list: simple('GET', '/v1/archives', only('archives', list(serverArchive)), {
    summary: 'Lists the archives, the oldest first.',
    errors: ['STATE_DIR_UNAVAILABLE'],
  }),
  delete: simple('DELETE', '/v1/archives/{archiveId}', empty, {
    summary: 'Deletes an archive. Do so when all of it has been written elsewhere.',
    errors: ['FILE_NOT_FOUND', 'INVALID_ID'],
  }),
}

const ofJob = { errors: ['JOB_NOT_FOUND', 'INVALID_ID'] }

export const jobCalls = {
  list: simple('GET', '/v1/jobs', only('jobs', list(jobInfo)), { summary: 'Lists the jobs in start order.' }),
  status: simple('GET', '/v1/jobs/{jobId}/status', jobStatus, {
    summary: 'Returns the status of a job.',
    ...ofJob,
  }),
  read: simple('GET', '/v1/jobs/{jobId}/output', jobRead, {
    summary: 'Reads the output of a job, starting at a cursor.',
    ...{ name: 'jobs.read', args: { cursor: { ...bytes, default: 0 } }, options: jobReadOptions },
    ...ofJob,
  }),
  wait: simple('POST', '/v1/jobs/{jobId}/wait', jobStatus, {
    summary: 'Waits until a job ends.',
    ...{ name: 'jobs.wait', options: jobWaitOptions },
    ...ofJob,
    ...repeated('the wait'),
  }),
  remove: simple('DELETE', '/v1/jobs/{jobId}', empty, {
    summary: 'Removes a job that has ended.',
    errors: [...ofJob.errors, 'JOB_RUNNING'],
  }),
}

const files = '/v1/sessions/{sessionId}/files'
const ofFile = ['SESSION_NOT_FOUND', 'FILE_NOT_FOUND', 'PERMISSION_DENIED', 'NOT_A_DIRECTORY', 'INVALID_PATH']
const path = sandboxPath

/** What changes the files of a session and returns nothing. */
export const fileCalls = {
  mkdir: simple('POST', `${files}/mkdir`, empty, {
    summary: 'Creates a directory and its missing parents.',
    ...{ args: { path }, required: ['path'] },
    errors: [...ofFile, 'FILE_EXISTS'],
    waits: true,
  }),
  chmod: simple('POST', `${files}/chmod`, empty, {
    summary: 'Sets the permission bits of a file or a directory.',
    ...{ args: { path, mode: fileWriteOptions.mode }, required: ['path', 'mode'] },
    errors: ofFile,
    waits: true,
  }),
  rename: simple('POST', `${files}/rename`, empty, {
    summary: 'Renames a file or a directory.',
    ...{ args: { from: path, to: path }, required: ['from', 'to'] },
    errors: [...ofFile, 'FILE_EXISTS', 'IS_A_DIRECTORY'],
    waits: true,
  }),
  copy: simple('POST', `${files}/copy`, empty, {
    summary: 'Copies a file or a directory.',
    ...{ name: 'files.copy', args: { from: path, to: path }, required: ['from', 'to'] },
    options: fileCopyOptions,
    errors: [...ofFile, 'FILE_EXISTS', 'IS_A_DIRECTORY', 'NO_SPACE'],
    waits: true,
  }),
  remove: simple('POST', `${files}/remove`, empty, {
    summary: 'Removes a file or a directory.',
    ...{ name: 'files.remove', args: { path }, required: ['path'], options: fileRemoveOptions },
    errors: [...ofFile, 'IS_A_DIRECTORY'],
    waits: true,
  }),
}

const ofProcess = { errors: ['PROCESS_NOT_FOUND'] }

/** The input and output of a process, and what it uses. */
export const processCalls = {
  logs: simple('GET', '/v1/processes/{processId}/logs', processLogs, {
    summary: 'Returns the output of a process so far.',
    ...{ name: 'getLogs', options: logOptions },
    ...ofProcess,
  }),
  logLines: simple('POST', '/v1/processes/{processId}/lines', logLines, {
    summary:
      'Returns lines of the output of a process so far: by their numbers, or those that match an expression.',
    ...{ name: 'getLogLines', options: logLinesOptions },
    ...ofProcess,
    ...repeated('the search'),
  }),
  receive: simple('GET', '/v1/processes/{processId}/messages', receivedMessages, {
    summary:
      'Returns the messages of a process after a cursor, which drops those before it. Waits until there is one, or nothing follows.',
    args: {
      cursor: { ...bytes, default: 0 },
      follow: { ...flag, default: true, description: 'Whether to wait.' },
    },
    ...{ name: 'messages', options: messagesOptions },
    errors: ['PROCESS_NOT_FOUND'],
    ...{ subject: 'reading messages', waits: true },
  }),
  stats: simple('GET', '/v1/processes/{processId}/stats', processStats, {
    summary: 'Returns the processor time and memory of a process and its descendants.',
    ...ofProcess,
  }),
  waiting: simple('GET', '/v1/processes/{processId}/waiting', only('waiting', orNull(processWaiting)), {
    summary: 'Finds out whether a program of a process waits for input.',
    ...ofProcess,
  }),
  waitForInput: simple('POST', '/v1/processes/{processId}/wait-for-input', processWaiting, {
    summary: 'Waits until a program of a process waits for input.',
    ...{ name: 'waitForInput', options: waitOptions },
    errors: ['PROCESS_NOT_FOUND', 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY'],
    ...waiting,
  }),
  waitFor: simple('POST', '/v1/processes/{processId}/wait-for', waitEnd, {
    summary:
      'Waits for the first of several things: the end of a process, input, a line, no output, or a time.',
    ...{ name: 'waitFor', options: waitForOptions },
    ...ofProcess,
    ...waiting,
  }),
}
