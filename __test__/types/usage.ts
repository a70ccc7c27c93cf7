/** Compiled, never run: what the public types allow and refuse, and what they infer. */
import { createRemoteJobs } from '@nacre/remote-jobs'
import {
  type AbortError,
  type ErrorKind,
  type ExecEvent,
  type ExecOptions,
  type ExecResult,
  type ExecStream,
  type Forwarding,
  type Hold,
  type JobHandle,
  type Jobs,
  type LogEvent,
  OptionError,
  type Process,
  type ProcessExit,
  type ProcessStatus,
  Sandbox,
  SandboxError,
  type Service,
  type Session,
  type ShellRun,
} from 'nacre'

/** Compiles only when both types are the same. */
function same<A, B>(..._proof: [A] extends [B] ? ([B] extends [A] ? [] : [never]) : [never]): void {}

export async function results(
  sandbox: Sandbox,
  session: Session,
  options: ExecOptions,
  either: ExecOptions<'utf8' | 'buffer'>,
) {
  const text = await sandbox.exec('ls')
  same<typeof text, ExecResult>()
  same<typeof text.stdout, string>()
  same<typeof text.signal, NodeJS.Signals | null>()
  same<typeof text.truncated | typeof text.truncatedAt, null | { stdout: number; stderr: number }>()
  const bytes = await sandbox.exec(['ls', '-l'] as const, { encoding: 'buffer', timeout: 5 })
  same<typeof bytes.all, Uint8Array>()
  const lines = await sandbox.exec('ls', { lines: true })
  same<typeof lines.stdout | typeof lines.all, string[]>()
  const maybe = await session.exec('ls', { lines: Math.random() < 0.5 })
  same<typeof maybe.stderr, string | string[]>()
  const tag = session.$.with({ lines: true, check: true })
  const tagged = await tag`ls ${'a'}`
  same<typeof tagged.stdout, string[]>()
  const again = await sandbox.$.with({ lines: true }).with({ sessionId: 'a' })`ls`
  same<typeof again.stdout, string[]>()
  const plain = await sandbox.$`ls`
  same<typeof plain.stdout, string>()
  const run: ShellRun<'buffer'> = sandbox.$.with({ encoding: 'buffer' })`ls`
  for await (const event of run) if (event.type === 'stdout') same<typeof event.data, Uint8Array>()
  // @ts-expect-error: a session's tag has its session
  session.$.with({ sessionId: 'a' })
  const stream = sandbox.execStream('ls', { lines: true })
  same<Awaited<typeof stream.result>['stdout'], string[]>()
  const given = await sandbox.exec('ls', options)
  same<typeof given.stderr, string>()
  const unknown = await sandbox.exec('ls', either)
  same<typeof unknown.stdout, string | Uint8Array>()
}

export async function options(sandbox: Sandbox, session: Session) {
  const signal = new AbortController().signal
  await sandbox.exec('x', {
    cwd: new URL('file:///'),
    env: { A: undefined },
    signal,
    killSignal: 'SIGINT',
    sessionId: 'a',
  })
  await sandbox.exec('x', { killSignal: 34, input: new Blob(['x']).stream(), check: true, maxBuffer: 0 })
  await session.startProcess('x', {
    mergeOutput: true,
    verbose: false,
    onStdout: (data) => same<typeof data, string>(),
    onLine: (line, stream) => same<typeof line | typeof stream, string>(),
  })
  await sandbox.exec('x', { onOutput: (stream, data) => same<typeof stream | typeof data, string>() })
  await sandbox.exec('x', {
    encoding: 'buffer',
    onComplete: (result) => same<typeof result.stdout, Uint8Array>(),
  })
  // @ts-expect-error: an unknown option
  await sandbox.exec('x', { timeOut: 5 })
  // @ts-expect-error: not a number of milliseconds
  await sandbox.exec('x', { timeout: '5s' })
  // @ts-expect-error: not a signal
  await sandbox.exec('x', { killSignal: 'SIGFOO' })
  // @ts-expect-error: not an encoding
  await sandbox.exec('x', { encoding: 'latin1' })
  // @ts-expect-error: values are strings
  await sandbox.exec('x', { env: { A: 1 } })
  // @ts-expect-error: a session's exec has its session
  await session.exec('x', { sessionId: 'a' })
  // @ts-expect-error: no command
  await sandbox.exec()
  // @ts-expect-error: arguments are strings
  await sandbox.exec(['sleep', 5])
}

export async function streams(sandbox: Sandbox, session: Session) {
  const stream = sandbox.execStream('ls')
  same<typeof stream, ExecStream<'utf8'>>()
  for await (const event of stream) {
    same<typeof event, ExecEvent>()
    if (event.type === 'start') same<typeof event.pid, number>()
    if (event.type === 'stdout' || event.type === 'stderr') {
      same<typeof event.data, string>()
      same<typeof event.cursor, number>()
    }
    if (event.type === 'complete') same<typeof event.result, ExecResult>()
    if (event.type === 'error') same<typeof event.error, SandboxError | AbortError>()
    // @ts-expect-error: only output has data
    event.data
  }
  await using bytes = session.execStream(['ls'], { encoding: 'buffer', timeout: 5 })
  for await (const event of bytes) if (event.type === 'stdout') same<typeof event.data, Uint8Array>()
  same<Awaited<typeof bytes.result>, ExecResult<'buffer'>>()
  same<Awaited<ReturnType<typeof bytes.kill>>, boolean>()
  for await (const line of bytes.lines({ from: 'all' })) same<typeof line, string>()
  new Response(bytes.toReadableStream({ from: 'stderr' }))
  await bytes.kill('SIGINT')
  // @ts-expect-error: not a signal
  await bytes.kill('SIGFOO')
  // @ts-expect-error: not a stream of output
  bytes.lines({ from: 'stdin' })
  // @ts-expect-error: it is given once
  bytes.result = Promise.reject()
  // @ts-expect-error: a session's stream has its session
  session.execStream('x', { sessionId: 'a' })
}

export async function processes(sandbox: Sandbox, session: Session) {
  await using process = await sandbox.startProcess('npm start', {
    processId: 'web',
    cwd: new URL('file:///'),
    input: 'pipe',
    logLimit: 1000,
    limits: { cpus: 0.5 },
    pty: { cols: 80, rows: 24 },
    onStart: (started) => same<typeof started, Process>(),
    onOutput: (stream, data) => same<typeof stream | typeof data, string>(),
    onExit: (exitCode, signal) => same<typeof exitCode | typeof signal, number | NodeJS.Signals | null>(),
  })
  same<typeof process.status, ProcessStatus>()
  same<typeof process.endTime, Date | undefined>()
  same<Awaited<ReturnType<typeof process.getStatus>>, ProcessStatus>()
  same<Awaited<ReturnType<typeof process.waitForExit>>, ProcessExit>()
  await process.waitForExit(5000)
  await process.waitForLog('x', 5000)
  // @ts-expect-error: only these two take a number
  await process.waitForPort(80, 5000)
  const { line, match } = await process.waitForLog(/x/, { timeout: 5, cursor: 3 })
  same<typeof line | NonNullable<typeof match>[0], string>()
  await process.waitForPort(80, { mode: 'http', path: '/', status: { min: 200 }, interval: 5 })
  await process.write(new Uint8Array())
  same<Awaited<ReturnType<typeof process.kill>>, boolean>()
  await sandbox.killProcess('web', 'SIGINT', { forceKillAfterDelay: 0 })
  await session.startProcess(['sleep', '5'])
  for (const { id } of await sandbox.listProcesses({ status: ['running'] })) same<typeof id, string>()
  // @ts-expect-error: a session's startProcess has its session
  await session.startProcess('x', { sessionId: 'a' })
  // @ts-expect-error: an option of exec only
  await sandbox.startProcess('x', { check: true })
  // @ts-expect-error: not a status
  await sandbox.listProcesses({ status: 'ended' })
  // @ts-expect-error: a pid does not change
  process.pid = 5
}

export async function logs(sandbox: Sandbox, process: Process) {
  for await (const event of process.output()) {
    same<typeof event, LogEvent>()
    if (event.type === 'exit') same<typeof event.exitCode, number | null>()
    else same<typeof event.data, string>()
  }
  for await (const event of sandbox.streamProcessLogs('web', {
    cursor: 5,
    follow: false,
    encoding: 'buffer',
  })) {
    if (event.type === 'stdout') same<typeof event.data, Uint8Array>()
    // @ts-expect-error: the end of a process has no data
    if (event.type === 'exit') event.data
  }
  const { stdout, truncated } = await sandbox.getProcessLogs('web')
  same<typeof stdout, string>()
  same<typeof truncated, number | undefined>()
  same<Awaited<ReturnType<typeof process.getLogs<'buffer'>>>['stderr'], Uint8Array>()
}

export async function services(sandbox: Sandbox) {
  const healthCheck = { port: 80, path: '/', timeout: 5 }
  const service: Service = await sandbox.startService('npm start', { healthCheck, restart: 'on-failure' })
  await sandbox.startService('npm start', { healthCheck: { log: /ready/ } })
  await sandbox.startService('npm start', { healthCheck: { command: ['true'], interval: 5 } })
  same<Awaited<ReturnType<typeof service.getHealth>>['healthy'], boolean>()
  await service.restart()
  // @ts-expect-error: no health check
  await sandbox.startService('npm start', {})
  // @ts-expect-error: not a policy
  await sandbox.startService('npm start', { healthCheck, restart: 'always' })
  // @ts-expect-error: input that can be read only once
  await sandbox.startService('npm start', { healthCheck, input: new Blob(['x']).stream() })
}

export async function remoteJobs(daytona: {
  process: {
    executeCommand(
      command: string,
      cwd?: string,
      env?: Record<string, string>,
      timeout?: number,
    ): Promise<{ exitCode: number; result: string; artifacts?: object }>
  }
}) {
  const jobs = createRemoteJobs(daytona, { jobsRoot: '/jobs', env: { A: undefined }, maxPollInterval: 500 })
  same<typeof jobs, Jobs>()
  const job = await jobs.start({ command: ['make', 'all'], timeoutSeconds: 5 })
  same<typeof job, JobHandle>()
  const { raw } = await jobs.read(job, 5, { encoding: 'buffer' })
  same<typeof raw, Uint8Array>()
  // @ts-expect-error: it cannot run anything
  createRemoteJobs({ process: {} })
  // @ts-expect-error: an unknown option
  createRemoteJobs(daytona, { root: '/jobs' })
}

export async function lifetimes() {
  await using sandbox = new Sandbox({ cwd: '/tmp', logger: console })
  await using session = await sandbox.createSession({ id: 'a', env: { A: 'x' } })
  await session.setEnvVars({ A: undefined })
  same<Awaited<ReturnType<typeof sandbox.getSession>>, Session | null>()
  same<Awaited<ReturnType<typeof sandbox.listSessions>>, Session[]>()
  same<Awaited<ReturnType<typeof session.hold>>, Hold<Session>>()
  await using forwarding = await sandbox.forward(3000, { local: 0, sessionId: 'a' })
  same<typeof forwarding, Forwarding>()
  // @ts-expect-error: an id does not change
  session.id = 'b'
}

export function errors(error: unknown) {
  if (error instanceof SandboxError && error.code === 'COMMAND_TIMEOUT')
    same<typeof error.result, ExecResult | undefined>()
  if (error instanceof SandboxError) same<typeof error.kind, ErrorKind>()
  if (error instanceof SandboxError && error.code === 'PROCESS_READY_TIMEOUT')
    same<typeof error.logTail, string | undefined>()
  if (error instanceof OptionError) {
    const wider: TypeError = error
    // @ts-expect-error: codes of the two classes are apart
    return wider instanceof OptionError && error.code === 'COMMAND_TIMEOUT'
  }
  return (error as AbortError).code === 'ABORT_ERR'
}
