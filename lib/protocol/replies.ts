/**
 * The replies below `/v1`, and the events that have public values: one table each, for the server and the client. A new
 * member of a result needs its line here.
 */
import { fromBase64 } from '../base/base64.js'
import type * as api from '../calls/index.js'
import { isText } from '../schema/paths.js'
import { PROCESS_STATUSES } from '../schema/process.js'
import {
  boolean,
  bytes,
  date,
  decodeOutput,
  encodeOutput,
  type Field,
  list,
  number,
  optional,
  orNull,
  output,
  type Reply,
  reply,
  text,
  unlessNull,
  word,
  wordOf,
  yes,
} from '../schema/reply.js'

const exitCode = orNull(number)
const signal = word<api.SignalName>()
const perStream = orNull(reply({ stdout: number, stderr: number }))

type AnyResult = api.ExecResult<api.Encoding>

export const execResult = reply<AnyResult>(
  {
    success: boolean,
    exitCode,
    signal: orNull(signal),
    command: text,
    sessionId: text,
    cwd: text,
    duration: number,
    timestamp: text,
    timedOut: boolean,
    isCanceled: boolean,
    truncated: { ...perStream, description: 'Number of bytes missing in each stream.' },
    truncatedAt: { ...perStream, description: 'Number of bytes before the gap in each stream.' },
    sessionRestarted: boolean,
    denials: list(reply<api.Denial>({ target: text, rule: wordOf('network') })),
    lostState: {
      ...optional(list(reply<api.LostState>({ kind: text, name: text, reason: text }))),
      description: 'Items of the state that could not be restored before the command.',
    },
    stdout: output,
    stderr: output,
    // It would double the size of the reply.
    all: {
      ...output,
      description: 'Omitted if one of the two streams is empty.',
      isOptional: true,
      isSent: ({ stdout, stderr }: AnyResult) => stdout.length > 0 && stderr.length > 0,
      decode(json, encoding, { stdout, stderr }: AnyResult) {
        if (json !== undefined) return decodeOutput(json, encoding)
        return stdout.length > 0 ? stdout : stderr
      },
    },
  },
  'Result',
)

export const exec = reply({ result: execResult })

/** Of requests that have no result. */
export const empty = reply({}) as unknown as Reply<void>
export const runKill = reply({ killed: boolean })
export const count = reply({ count: number })

export const session = reply({ id: text }, 'Session')
export const sessions = reply({ sessions: list(session) })

const historyEntry = reply<api.HistoryEntry>(
  {
    command: text,
    startedAt: date,
    duration: number,
    exitCode,
    signal: orNull(signal),
    stdoutBytes: number,
    stderrBytes: number,
  },
  'HistoryEntry',
)

export const history = reply({ commands: list(historyEntry) })

/** A process by id, and by what no other process has, not even with the same id. */
export interface NamedProcess extends api.ProcessInfo {
  readonly instance: string
}

export const processStatus: Field<api.ProcessStatus> = {
  schema: { name: 'ProcessStatus', type: 'string', enum: PROCESS_STATUSES },
}
const exitReason = word<api.ExitReason>()

export const process = reply<NamedProcess>(
  {
    id: text,
    pid: number,
    instance: {
      ...text,
      description: 'Names this process for ever, as `id~instance` in a path: its id can be used again.',
    },
    command: text,
    sessionId: text,
    status: processStatus,
    startTime: date,
    exitCode,
    signal: orNull(signal),
    endTime: unlessNull(date),
    reason: unlessNull(exitReason),
  },
  'Process',
)

const processExit = reply<api.ProcessExit>({ exitCode, signal: orNull(signal), reason: orNull(exitReason) })

export const processes = reply({ processes: list(process) })
export const kill = reply({ killed: boolean, process })
export const wait = reply({ exit: processExit, process })
export const logLine = reply({ line: text })
export const resize = reply({ resized: boolean })

export const stats = reply<api.ProcessStats>({
  cpuTime: number,
  memory: number,
  memoryPeak: number,
  pids: number,
  ioRead: number,
  ioWrite: number,
})

export const waitingForInput = reply<api.ProcessWaiting>({
  state: wordOf('reading', 'listening'),
  sure: boolean,
  how: wordOf('line', 'secret', 'keys', 'pipe'),
  program: text,
  pid: number,
  timed: boolean,
})
export const waiting = reply({ waiting: orNull(waitingForInput) })

export const logs = reply<api.ProcessLogs<api.Encoding>>({
  stdout: output,
  stderr: output,
  truncated: optional(number),
})

/** The end of a process is sent as it is. */
export const logEvent: Pick<Reply<api.LogEvent<api.Encoding>>, 'encode' | 'decode'> = {
  encode: (event, toBase64) =>
    event.type === 'exit' ? event : { ...event, data: encodeOutput(event.data, toBase64) },
  decode(json, encoding = 'utf8') {
    const event = json as api.LogEvent
    return event.type === 'exit' ? event : { ...event, data: decodeOutput(event.data, encoding) }
  },
}

export const health = reply<api.ServiceHealth>({
  healthy: boolean,
  status: processStatus,
  restarts: number,
  lastFailure: unlessNull(reply<api.ServiceFailure>({ ...processExit.fields, endTime: date, logTail: text })),
})

export const fileInfo = reply<api.FileInfo>(
  {
    path: text,
    name: text,
    type: wordOf('file', 'directory', 'symlink', 'other'),
    size: number,
    mode: number,
    target: optional(text),
    pathBytes: { ...optional(bytes), name: 'pathBase64' },
    modified: date,
  },
  'File',
)

export const stat = reply({ file: orNull(fileInfo) })
export const files = reply({ files: list(fileInfo) })
export const upload = reply({ uploadId: text })

export const fileEvent = reply<api.FileEvent>({
  type: wordOf('created', 'modified', 'deleted', 'renamed', 'overflow'),
  path: text,
  oldPath: optional(text),
  pathBytes: { ...optional(bytes), name: 'pathBase64' },
  oldPathBytes: { ...optional(bytes), name: 'oldPathBase64' },
})

export const workspaceInfo = reply<{ path: string; id: string | null }>({ path: text, id: orNull(text) })

const entryKind = wordOf('file', 'directory', 'symlink', 'fifo', 'socket', 'device')
const entry = { kind: entryKind, size: number, mode: number }
const encoder = new TextEncoder()

const change = reply<api.Change>(
  {
    path: text,
    pathBytes: {
      ...bytes,
      name: 'pathBase64',
      description: 'Omitted if `path` is the whole name.',
      isOptional: true,
      isSent: ({ path, pathBytes }: api.Change) => !isText({ bytes: pathBytes, shown: path }),
      decode: (json, _encoding, { path }: api.Change) =>
        json === undefined ? encoder.encode(path) : fromBase64(json),
    },
    type: wordOf('created', 'modified', 'deleted', 'replaced', 'metadata'),
    ...entry,
    before: orNull(reply(entry)),
  },
  'Change',
)

export const changes = reply({ changes: list(change) })

export const commit = reply<api.Commit>({
  applied: number,
  skipped: list(reply({ path: text, reason: text })),
})

export const discard = reply({ discarded: number })
export const workspaceUsage = reply<api.WorkspaceUsage>({ bytes: number, files: number, layers: number })

export const namedWorkspaces = reply({
  workspaces: list(
    reply<api.NamedWorkspace>(
      { id: text, path: orNull(text), inUse: boolean, usedAt: text },
      'NamedWorkspace',
    ),
  ),
})

export const checkpoint = reply<api.Checkpoint>(
  { id: text, name: orNull(text), createdAt: text, sessions: list(text) },
  'Checkpoint',
)

export const checkpoints = reply({ checkpoints: list(checkpoint) })

export const rollback = reply<api.Rollback>({
  checkpoint,
  endedProcesses: list(text),
  endedSessions: list(text),
})

export const undo = reply<api.Undo>({
  command: text,
  endedProcesses: list(text),
  endedSessions: list(text),
})

export const jobStatus = reply<api.JobStatus>(
  {
    state: wordOf('running', 'exited', 'crashed'),
    exitCode,
    alive: boolean,
    outputLost: optional(yes),
    signal: unlessNull(signal),
    reason: unlessNull(word<NonNullable<api.JobStatus['reason']>>()),
    endedAt: unlessNull(date),
    duration: unlessNull(number),
  },
  'JobStatus',
)

export const jobHandle = reply<api.JobHandle>(
  {
    jobId: text,
    dir: text,
    outputFile: text,
    exitFile: text,
    pgid: number,
    cgroup: orNull(text),
    processName: optional(text),
  },
  'Job',
)

const jobInfo = reply<api.JobInfo>({
  ...jobHandle.fields,
  createdAt: {
    ...date,
    description: 'ISO 8601; empty if the record of the job has no date.',
    encode: (time) => time?.toISOString() ?? '',
    decode: (json) => (json === '' ? null : new Date(json)),
  },
  command: unlessNull(text),
  status: jobStatus,
})

export const jobs = reply({ jobs: list(jobInfo) })

export const jobRead = reply<api.JobRead<api.Encoding>>({
  raw: output,
  cursor: number,
  bytesFetched: number,
  status: jobStatus,
})

export const caller = reply({ callerId: text })

const enforcement = reply<api.IsolationCapabilities>({
  filesystem: wordOf('namespace', 'landlock', 'none'),
  network: wordOf('namespace', 'landlock+seccomp', 'seccomp', 'none'),
  processes: wordOf('namespace', 'landlock', 'none'),
  notes: list(text),
})

const workspaces = reply<api.WorkspaceCapabilities>({
  copyOnWrite: boolean,
  directoryRename: boolean,
  reflink: boolean,
  notes: list(text),
})

export const capabilities = reply<api.Capabilities>({
  cgroup: wordOf('v2', 'none'),
  cgroupKill: boolean,
  controllers: list(text),
  pidfd: boolean,
  procFd: boolean,
  shell: orNull(text),
  shellVersion: orNull(text),
  engine: wordOf('builtin', 'plain'),
  restored: list(text),
  isolation: enforcement,
  workspace: workspaces,
  notes: list(text),
})
