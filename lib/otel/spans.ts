/**
 * The content of spans, by the semantic conventions for callers of command line programs.
 *
 * bash runs shell text, so its program is bash, whatever it calls. This also keeps the number of span names small.
 */
import { type Attributes, type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api'
import type { TraceContext } from '../backends/native/tracing.js'
import { os, path } from '../base/builtin.js'
import type { ExecResult, ProcessExit } from '../calls/index.js'

/** A job outlives its caller, like a message. */
export const KINDS = {
  exec: SpanKind.CLIENT,
  process: SpanKind.CLIENT,
  job: SpanKind.PRODUCER,
  queue: SpanKind.PRODUCER,
  attempt: SpanKind.CONSUMER,
} as const

/** How the call or process of a span ended. */
export interface SpanEnd {
  exitCode?: number | undefined
  /** The error type of a failure; few different values. */
  errorType?: string | undefined
  /** Processor time of a command. */
  cpuMs?: number | undefined
}

/** The program, which is the name of the span. */
export function nameOf({ argv }: TraceContext): string {
  return path.basename(argv?.[0] ?? 'bash') || 'bash'
}

/** The attributes that are known before the command runs. */
export function firstAttributes(call: TraceContext, commandArgs: boolean): Attributes {
  const { command, argv, sandboxId, sessionId, processId, jobId, queue, queueJobId, attempt, host } = call
  return {
    'process.executable.name': nameOf(call),
    ...(commandArgs && { 'process.command_args': argv ?? ['bash', '-c', command] }),
    ...(sandboxId !== undefined && { 'nacre.sandbox.id': sandboxId }),
    ...(sessionId !== undefined && { 'nacre.session.id': sessionId }),
    ...(processId !== undefined && { 'nacre.process.id': processId }),
    ...(jobId !== undefined && { 'nacre.job.id': jobId }),
    ...(queue !== undefined && { 'nacre.queue.name': queue }),
    ...(queueJobId !== undefined && { 'nacre.queue.job.id': queueJobId }),
    ...(attempt !== undefined && { 'nacre.queue.job.attempt': attempt }),
    ...(host !== undefined && { 'nacre.host.id': host }),
  }
}

/** The outcome of a call: a command's exit, or that a job was started. */
export function endOfCall({ error, result }: TraceContext): SpanEnd {
  if (error === undefined)
    return isExit(result) ? { ...endOfProcess(result), cpuMs: result.usage?.cpuMs } : {}
  const { code, name = 'Error', result: soFar } = error as { code?: unknown; name?: string; result?: unknown }
  const errorType = typeof code === 'string' ? code : name
  const { exitCode } = isExit(soFar) ? endOfProcess(soFar) : {}
  return { exitCode, errorType }
}

/** A signal has the exit code that shells give it. */
export function endOfProcess({ exitCode, signal }: Pick<ProcessExit, 'exitCode' | 'signal'>): SpanEnd {
  if (signal === null) return { exitCode: exitCode ?? undefined, errorType: errorTypeOf(exitCode) }
  const number = os.constants.signals[signal]
  return { exitCode: number === undefined ? undefined : 128 + number, errorType: signal }
}

/** A process that was lost has no exit code. */
function errorTypeOf(exitCode: number | null): string | undefined {
  if (exitCode === null) return '_OTHER'
  return exitCode === 0 ? undefined : String(exitCode)
}

/** Ends a span. Error messages are left out: they contain the command and the end of its stderr. */
export function finish(span: Span, { exitCode, errorType, cpuMs }: SpanEnd): void {
  if (cpuMs !== undefined) span.setAttribute('nacre.command.cpu_ms', cpuMs)
  if (exitCode !== undefined) span.setAttribute('process.exit.code', exitCode)
  if (errorType !== undefined) {
    span.setAttribute('error.type', errorType)
    span.setStatus({ code: SpanStatusCode.ERROR })
  }
  span.end()
}

function isExit(value: unknown): value is Pick<ExecResult, 'exitCode' | 'signal' | 'usage'> {
  if (typeof value !== 'object' || value === null || !('exitCode' in value) || !('signal' in value))
    return false
  // Otherwise the command goes on as a process.
  return !('process' in value)
}
