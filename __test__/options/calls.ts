/**
 * How each call that takes options or checked arguments is made, for the refusal tests. The names are those of the tables
 * (scripts/calls.mjs and lib/options.ts of the packages).
 */
import { serveDaytona, serveE2b } from '@nacre/compat'
import { record } from '@nacre/console'
import { SandboxFleet } from '@nacre/fleet'
import { JobQueue, JobWorker } from '@nacre/queue'
import { createRemoteJobs } from '@nacre/remote-jobs'
import { createServer, serve } from '@nacre/server'
import { createTools } from '@nacre/tools'
import { type ExecStream, type Process, Sandbox, type Session } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { Session as ContainerSession } from 'nacre/container'
import { connectProgram, openSandbox } from 'nacre/engine'
import { instrument } from 'nacre/otel'
import { Cases, casesWith } from '../helpers/kinds.js'

// biome-ignore lint/suspicious/noExplicitAny: values that the types refuse
type Any = any

export interface Way {
  /** What messages call it. */
  owner: string
  run: (options: Any) => unknown
  /** Options that it needs. */
  base?: object | undefined
  /** What messages say before the name of an option. Such a call has an option with the options. */
  prefix?: string
  /** A number instead of the options is the timeout. */
  takesTimeout?: true
}

function way(owner: string, run: (options: Any) => unknown, base?: object): Way {
  return { owner, run, base }
}

/** The options are those of an option. */
function within(owner: string, run: (options: Any) => unknown, base?: object): Way {
  return { owner, run, base, prefix: `${owner}.` }
}

export interface Place {
  sandbox: Sandbox
  session: Session
  process: Process
  stream: ExecStream
  /** A command that leaves a file behind. */
  command: string
}

/** The calls that a sandbox and a client have in common. */
export function sharedWays({ sandbox, session, process, stream, command }: Place): Record<string, Way[]> {
  const { files, jobs, workspace } = sandbox
  const healthCheck = { port: 1 }
  return {
    limits: [
      within('limits', (limits) => sandbox.startProcess(command, { limits })),
      within('limits', (limits) => jobs.start({ command, limits })),
    ],
    createSession: [way('createSession', (o) => sandbox.createSession(o))],
    setEnvVars: [way('setEnvVars', (o) => sandbox.setEnvVars({}, o))],
    'session.why': [way('session.why', (o) => session.why('/a', o))],
    'session.history': [way('session.history', (o) => session.history(o))],
    isolation: [within('isolation', (isolation) => sandbox.createSession({ isolation }))],
    'isolation.filesystem': [
      within('isolation.filesystem', (filesystem) => sandbox.createSession({ isolation: { filesystem } })),
    ],
    'isolation.filesystem.mounts': [
      within(
        'isolation.filesystem.mounts[0]',
        (mount) => sandbox.createSession({ isolation: { filesystem: { mounts: [mount] } } }),
        { source: '/a', target: '/b' },
      ),
    ],
    'isolation.network': [
      within('isolation.network', (network) => sandbox.createSession({ isolation: { network } }), {
        allow: [],
      }),
    ],
    'isolation.network.programs': [
      within(
        'isolation.network.programs.git',
        (git) => sandbox.createSession({ isolation: { network: { allow: [], programs: { git } } } }),
        { allow: [] },
      ),
    ],
    'isolation.network.secrets': [
      within(
        'isolation.network.secrets.TOKEN',
        (TOKEN) => sandbox.createSession({ isolation: { network: { allow: [], secrets: { TOKEN } } } }),
        { value: 'secret-value', hosts: ['api.test'] },
      ),
    ],
    'exec and execStream': [
      way('exec', (o) => sandbox.exec(command, o)),
      way('execStream', (o) => sandbox.execStream(command, o)),
    ],
    'session.exec and session.execStream': [
      way('session.exec', (o) => session.exec(command, o)),
      way('session.execStream', (o) => session.execStream(command, o)),
    ],
    startProcess: [way('startProcess', (o) => sandbox.startProcess(command, o))],
    'session.startProcess': [way('session.startProcess', (o) => session.startProcess(command, o))],
    startService: [way('startService', (o) => sandbox.startService(command, o), { healthCheck })],
    'session.startService': [
      way('session.startService', (o) => session.startService(command, o), { healthCheck }),
    ],
    'kill of execStream, and session.killCommand': [
      way('kill', (o) => stream.kill(undefined, o)),
      way('session.killCommand', (o) => session.killCommand('x', undefined, o)),
    ],
    kill: [
      way('kill', (o) => process.kill(undefined, o)),
      way('killProcess', (o) => sandbox.killProcess('x', undefined, o)),
    ],
    'waitForExit and waitForInput': [
      { ...way('waitForExit', (o) => process.waitForExit(o)), takesTimeout: true },
      way('waitForInput', (o) => process.waitForInput(o)),
      way('waitForInput', (o) => stream.waitForInput(o)),
    ],
    waitFor: [way('waitFor', (o) => process.waitFor(o)), way('waitFor', (o) => stream.waitFor(o))],
    waitForLog: [{ ...way('waitForLog', (o) => process.waitForLog('x', o)), takesTimeout: true }],
    'a health check by port': [
      within('healthCheck', (check) => sandbox.startService(command, { healthCheck: check }), healthCheck),
    ],
    waitForPort: [way('waitForPort', (o) => process.waitForPort(1, o))],
    events: [way('events', (o) => sandbox.events(o))],
    getLogs: [
      way('getLogs', (o) => process.getLogs(o)),
      way('getLogs', (o) => stream.getLogs(o)),
      way('getProcessLogs', (o) => sandbox.getProcessLogs('x', o)),
    ],
    getLogLines: [
      way('getLogLines', (o) => process.getLogLines(o)),
      way('getLogLines', (o) => stream.getLogLines(o)),
    ],
    'output and streamProcessLogs': [
      way('output', (o) => process.output(o)),
      way('streamProcessLogs', (o) => sandbox.streamProcessLogs('x', o)),
    ],
    'files.read': [way('files.read', (o) => files.read('a', o))],
    'files.readStream': [way('files.readStream', (o) => files.readStream('a', o))],
    'files.write': [way('files.write', (o) => files.write('made', 'x', o))],
    'files.copyIn and files.copyOut': [
      way('files.copyIn', (o) => files.copyIn('/proc/nowhere', 'made', o)),
      way('files.copyOut', (o) => files.copyOut('a', '/proc/nowhere', o)),
    ],
    'files.list': [way('files.list', (o) => files.list('.', o))],
    'files.stat': [way('files.stat', (o) => files.stat('a', o))],
    'files.copy': [way('files.copy', (o) => files.copy('a', 'b', o))],
    'files.remove': [way('files.remove', (o) => files.remove('a', o))],
    'files.watch': [way('files.watch', (o) => files.watch('.', o))],
    'jobs.start': [way('jobs.start', (o) => jobs.start(o), { command })],
    'jobs.read': [way('jobs.read', (o) => jobs.read('x', 0, o))],
    'jobs.follow': [way('jobs.follow', (o) => jobs.follow('x', 0, o))],
    'jobs.wait': [way('jobs.wait', (o) => jobs.wait('x', o))],
    'jobs.list': [way('jobs.list', (o) => jobs.list(o))],
    'jobs.prune': [way('jobs.prune', (o) => jobs.prune(o))],
    'jobs.cancel': [way('jobs.cancel', (o) => jobs.cancel('x', o))],
    checkpoint: [way('checkpoint', (o) => sandbox.checkpoint(o))],
    'workspace.changes': [way('workspace.changes', (o) => workspace.changes(o))],
    'workspace.diff': [way('workspace.diff', (o) => workspace.diff(o))],
    'workspace.review': [way('workspace.review', (o) => workspace.review(o))],
    'workspace.commit': [way('workspace.commit', (o) => workspace.commit(o))],
    'workspace.discard': [way('workspace.discard', (o) => workspace.discard(o))],
  }
}

/** Constructors, and calls that only one of them has. */
export function ownWays(sandbox: Sandbox, client: SandboxClient, stateDir: string): Record<string, Way[]> {
  const container = new ContainerSession({ id: 'a' })
  const redis = 'redis://127.0.0.1:1'
  const other = new Sandbox()
  const queue = new JobQueue({ name: 'test', redis })
  const kubernetes = { warmPool: 'pool' }
  const fleet = new SandboxFleet({ kubernetes })
  const router = { url: 'http://127.0.0.1:1' }
  const backend = { process: { executeCommand: () => Promise.reject(new Error('this must not be called')) } }
  return {
    'new Sandbox': [way('Sandbox', (o) => new Sandbox(o))],
    fork: [way('fork', (o) => sandbox.fork(1, o)), way('fork', (o) => sandbox.fork(undefined as Any, o))],
    'Sandbox.merge': [way('Sandbox.merge', (o) => Sandbox.merge([sandbox, other], o))],
    suspend: [way('suspend', (o) => sandbox.suspend('/nowhere/a.nacre', o))],
    'Sandbox.resume': [way('Sandbox.resume', (o) => Sandbox.resume('/nowhere/a.nacre', o))],
    forward: [way('forward', (o) => sandbox.forward(1, o))],
    'new SandboxClient': [way('SandboxClient', (o) => new SandboxClient(o), { url: 'http://127.0.0.1:1' })],
    openSandbox: [way('openSandbox', (o) => openSandbox(o))],
    'mounts of openSandbox': [
      within('mounts[0]', (mount) => openSandbox({ mounts: [mount] }), { source: '/a' }),
    ],
    connectProgram: [way('connectProgram', (o) => connectProgram(['true'], o))],
    instrument: [way('instrument', (o) => instrument(o))],
    portUrl: [way('portUrl', (o) => client.portUrl(1, o))],
    workspace: [
      within('workspace', (workspace) => new Sandbox({ stateDir, workspace }), { mode: 'copy-on-write' }),
    ],
    'new Session of nacre/container': [way('Session', (o) => new ContainerSession(o), { id: 'a' })],
    'exec of nacre/container': [way('exec', (o) => container.exec('true', o))],
    'execStream of nacre/container': [way('execStream', (o) => container.execStream('true', o))],
    createServer: [way('createServer', (o) => createServer(sandbox, o))],
    serve: [way('serve', (o) => serve(sandbox, o))],
    'sandboxd of serve': [within('sandboxd', (sandboxd) => serve(sandbox, { sandboxd }))],
    record: [way('record', (o) => record(sandbox, o), { directory: stateDir })],
    serveE2b: [way('serveE2b', (o) => serveE2b(o))],
    serveDaytona: [way('serveDaytona', (o) => serveDaytona(o))],
    'new SandboxFleet': [way('SandboxFleet', (o) => new SandboxFleet(o), { kubernetes })],
    'kubernetes of a fleet': [
      within('kubernetes', (place) => new SandboxFleet({ kubernetes: place }), kubernetes),
    ],
    'kubernetes.router of a fleet': [
      within(
        'kubernetes.router',
        (o) => new SandboxFleet({ kubernetes: { ...kubernetes, router: o } }),
        router,
      ),
    ],
    'fleet.create': [way('create', (o) => fleet.create(o))],
    'fleet.get, fleet.list and fleet.delete': [
      way('get', (o) => fleet.get('a', o)),
      way('list', (o) => fleet.list(o)),
      way('delete', (o) => fleet.delete('a', o)),
    ],
    'new JobQueue': [way('new JobQueue', (o) => new JobQueue(o), { name: 'test', redis })],
    'queue.add': [way('queue.add', (o) => queue.add(o), { command: 'true' })],
    'queue.wait': [way('queue.wait', (o) => queue.wait('x', o))],
    'queue.cancel': [way('queue.cancel', (o) => queue.cancel('x', o))],
    'queue.logs': [way('queue.logs', (o) => queue.logs('x', o))],
    'queue.list': [way('queue.list', (o) => queue.list(o))],
    'new JobWorker': [
      way('new JobWorker', (o) => new JobWorker(o), { name: 'a', redis, host: 'one', jobs: sandbox.jobs }),
    ],
    createRemoteJobs: [way('createRemoteJobs', (o) => createRemoteJobs(backend, o))],
    createTools: [way('createTools', (o) => createTools(sandbox, o))],
  }
}

export type Argument = [name: string, cases: Cases, ...calls: Array<(value: Any) => unknown>]

/** The checked arguments of calls that only a sandbox in this process has. */
export function localArguments({ sandbox, session }: Place): Argument[] {
  return [
    ['port', casesWith('1 to 65535'), (v) => session.connect(v), (v) => sandbox.forward(v)],
    ['count', casesWith('1 to 256'), (v) => sandbox.fork(v, {})],
  ]
}

/** Arguments beside options, and filters without a table. */
export function sharedArguments({ sandbox, session, process, stream }: Place): Argument[] {
  const { files, jobs } = sandbox
  const id = casesWith('1 to 128 of A-Z a-z 0-9 . _ -')
  const command = casesWith('shell text or a list of arguments')
  const signal = casesWith('a name like SIGTERM, or 1 to 64')
  const variables = casesWith('strings by name; undefined unsets')
  const cursor = casesWith('0 to Number.MAX_SAFE_INTEGER bytes')
  const port = casesWith('1 to 65535')
  const from = casesWith('stdout or stderr or all')
  const noPath = new Cases().refuses(' must be a string or a Uint8Array, not ', 7, null, {}, [], true)
  const pattern = new Cases()
    .refuses(' must be a RegExp or a non-empty string, not ', '', 5, null, ['x'])
    .refuses(' must not contain a newline: lines are tested one by one', 'a\nb')
  const status = new Cases()
    .refuses(
      /^ must be one of starting, running, completed, failed, killed, error, or a list of them, not "ended"$/,
      'ended',
    )
    .refuses(/, or a list of them, not 5$/, 5, ['running', 5])
  return [
    [
      'id',
      id,
      (v) => sandbox.getSession(v),
      (v) => sandbox.deleteSession(v),
      (v) => sandbox.getProcess(v),
      (v) => sandbox.killProcess(v),
      (v) => sandbox.getProcessLogs(v),
      (v) => sandbox.streamProcessLogs(v),
      (v) => session.killCommand(v),
      (v) => sandbox.answer(v, 'once'),
      (v) => sandbox.workspace.delete(v),
    ],
    ['jobId', id, (v) => jobs.attach(v)],
    [
      'job.jobId',
      id,
      ...(['status', 'read', 'follow', 'wait', 'cancel', 'remove'] as const).map(
        (call) => (v: Any) => jobs[call]({ jobId: v } as never),
      ),
    ],
    [
      'command',
      command,
      (v) => sandbox.exec(v),
      (v) => sandbox.execStream(v),
      (v) => sandbox.startProcess(v),
      (v) => sandbox.startService(v, { healthCheck: { port: 1 } }),
      (v) => sandbox.startService('true', { healthCheck: { command: v } }),
      (v) => session.exec(v),
      (v) => session.execStream(v),
      (v) => session.startProcess(v),
      (v) => session.startService(v, { healthCheck: { port: 1 } }),
    ],
    [
      'signal',
      signal,
      (v) => process.kill(v),
      (v) => stream.kill(v),
      (v) => sandbox.killProcess('x', v),
      (v) => session.killCommand('x', v),
    ],
    ['vars', variables, (v) => sandbox.setEnvVars(v), (v) => session.setEnvVars(v)],
    ['cursor', cursor, (v) => jobs.read('x', v), (v) => jobs.follow('x', v)],
    ['port', port, (v) => process.waitForPort(v)],
    ['answer', casesWith('once or session or deny'), (v) => sandbox.answer('1', v)],
    ['data', casesWith('text or bytes'), (v) => process.write(v), (v) => stream.write(v)],
    ['data', casesWith("text, bytes, an iterable of them, or 'pipe'"), (v) => files.write('made', v)],
    [
      'path',
      noPath,
      (v) => files.read(v),
      (v) => files.readStream(v),
      (v) => files.write(v, 'x'),
      (v) => files.list(v),
      (v) => files.stat(v),
      (v) => files.exists(v),
      (v) => files.mkdir(v),
      (v) => files.remove(v),
      (v) => files.watch(v),
    ],
    ['from', from, (v) => stream.lines({ from: v }), (v) => stream.toReadableStream({ from: v })],
    ['from', noPath, (v) => files.rename(v, 'b'), (v) => files.copy(v, 'b')],
    ['to', noPath, (v) => files.rename('a', v), (v) => files.copy('a', v)],
    ['pattern', pattern, (v) => process.waitForLog(v)],
    ['healthCheck.log', pattern, (v) => sandbox.startService('true', { healthCheck: { log: v } })],
    ['status', status, (v) => sandbox.listProcesses({ status: v })],
    ['sessionId', id, (v) => sandbox.listProcesses({ sessionId: v })],
  ]
}
