/**
 * The outcome of a run: the only place that builds results and decides which error a caller gets.
 */

import { AbortError, engineError, SandboxError } from '../../base/errors.js'
import { failureText, shownCommand } from '../../base/failure-text.js'
import { defineLazily } from '../../base/lazy.js'
import { cutOf, type Omission, omissionIn } from '../../base/omission.js'
import { signalName } from '../../base/signals.js'
import { decodeText } from '../../base/text.js'
import type { NativeBlocker, NativeCommandUsage, NativeResult } from '../../boundary/index.js'
import type { Encoding, ExecResult, Output, Usage } from '../../calls/index.js'
import { denialOf } from './denials.js'
import type { RunEnd } from './engine-run.js'
import { interleaveBytes, interleaveText, type StreamText } from './interleave.js'
import type { ExecPlan } from './plan/exec.js'
import { killedByOf } from './processes/handle.js'

type AnyResult = ExecResult<Encoding>
type AnyOutput = Output<Encoding>

/**
 * Returns the result of a run, or throws the error that replaces it. A promise only if something is still undecoded: a turn
 * of the promise queue costs as much as a short command.
 */
export function conclude(plan: ExecPlan, end: RunEnd): AnyResult | Promise<AnyResult> {
  const built = end.result && buildResult(plan, end.result)
  return built instanceof Promise
    ? built.then((result) => judged(plan, end, result))
    : judged(plan, end, built)
}

function judged(plan: ExecPlan, end: RunEnd, result: AnyResult | undefined): AnyResult {
  if (result !== undefined && end.process !== undefined) result.process = end.process
  const failure = chooseFailure(plan, end, result)
  if (failure !== undefined) throw failure.error
  return result as AnyResult
}

/**
 * The precedence: engine error > exception of the caller's code > timeout > output limit, budget > abort > failed check. A kill by
 * the holder of the stream returns a result, like a kill from outside.
 */
function chooseFailure(
  plan: ExecPlan,
  end: RunEnd,
  result: AnyResult | undefined,
): { error: unknown } | undefined {
  if (end.error) return { error: engineError(end.error.code, end.error.message, { result }) }
  if (end.thrown) return { error: end.thrown.value }
  if (result === undefined) return { error: engineError('ENGINE_ERROR', 'the engine returned no result') }
  const fail = (
    code: 'COMMAND_TIMEOUT' | 'COMMAND_FAILED' | 'OUTPUT_LIMIT' | 'BUDGET_EXCEEDED',
    what: string,
  ) => {
    const { message, shortMessage } = failureText(result, what)
    return { error: new SandboxError(code, message, { result, shortMessage }) }
  }
  const by = result.signal === null ? 'ended' : `was ended by ${result.signal}`
  if (result.timedOut) {
    if (end.process === undefined && !hasRun(end.result)) {
      const reason = reasonOf(end.result?.waitedFor)
      return fail('COMMAND_TIMEOUT', `did not start within its timeout, ${reason}, and was given up`)
    }
    return fail('COMMAND_TIMEOUT', `ran longer than its timeout of ${plan.request.timeout} ms and ${by}`)
  }
  if (end.result?.outputLimited) {
    const cause = result.signal === null ? '' : ` and ${by}`
    return fail(
      'OUTPUT_LIMIT',
      `printed more than its outputLimit of ${plan.request.extras?.outputLimit} bytes${cause}`,
    )
  }
  if (result.killedBy?.by === 'budget') {
    const what = hasRun(end.result) ? `has used its budget up, and ${by}` : 'was given up before it began'
    return fail('BUDGET_EXCEEDED', `${what} (${result.killedBy.reason})`)
  }
  const isAborted =
    end.process === undefined ? result.cancelled && result.killedBy?.by !== 'caller' : plan.signal?.aborted
  if (isAborted) {
    if (!hasRun(end.result)) return { error: new AbortError(plan.signal?.reason) }
    const text = failureText(result, 'was aborted')
    return { error: new AbortError(plan.signal?.reason, result, text) }
  }
  if (end.process !== undefined) return undefined
  return plan.check && !result.success ? fail('COMMAND_FAILED', describeEnding(result)) : undefined
}

/** Why a command has not started. */
function reasonOf(blocker: NativeBlocker | undefined): string {
  if (blocker === undefined) return 'since the shell of its session was still starting'
  const { isUnread, startedAt } = blocker
  const command = `\`${shownCommand(blocker.command)}\``
  const what = isUnread ? `the stream ${command}, which is not read,` : `the command ${command}`
  return `since ${what} has run in its session since ${new Date(startedAt).toISOString()}`
}

function describeEnding({ signal, exitCode, cancelled }: AnyResult): string {
  if (signal !== null) return `was ended by ${signal}`
  return cancelled ? 'was killed before it started,' : `ended with exit code ${exitCode}`
}

/** Whether the command ran. A command that was cancelled in the queue has no start time. */
function hasRun(result: NativeResult | undefined): boolean {
  return result !== undefined && result.startedAt > 0
}

/** The public form of a native result. Text above 1 MiB is decoded here, in slices. */
function buildResult(plan: ExecPlan, native: NativeResult): AnyResult | Promise<AnyResult> {
  const { encoding, maxBuffer } = plan.request
  const out = kept(native.stdout, native.droppedStdout, maxBuffer, encoding)
  const err = kept(native.stderr, native.droppedStderr, maxBuffer, encoding)
  const stdout = isUndecoded(native.stdout, encoding) ? decodeKept(native.stdout, out) : native.stdout
  const stderr = isUndecoded(native.stderr, encoding) ? decodeKept(native.stderr, err) : native.stderr
  const built = ([stdout, stderr]: [AnyOutput, AnyOutput]) => {
    const streams = [
      { output: stdout, raw: native.stdout, ...out },
      { output: stderr, raw: native.stderr, ...err },
    ] as const
    return assemble(plan, native, ...streams)
  }
  if (!(stdout instanceof Promise || stderr instanceof Promise)) return built([stdout, stderr])
  return Promise.all([stdout, stderr]).then(built)
}

function assemble(plan: ExecPlan, native: NativeResult, out: Stream, err: Stream): AnyResult {
  const [stdout, stderr] = [out.output, err.output]
  const strip = plan.stripFinalNewline ? stripFinalNewline : (output: AnyOutput) => output
  const exitCode = native.exitCode ?? null
  const { timedOut = false, cancelled = false, outputLimited = false, sessionRestarted = false } = native
  const result: AnyResult = {
    success: exitCode === 0 && !cancelled && !outputLimited && native.killedBy === undefined,
    exitCode,
    signal: native.signal === undefined ? null : signalName(native.signal),
    stdout: strip(stdout),
    stderr: strip(stderr),
    command: plan.command,
    sessionId: plan.request.sessionId,
    cwd: native.cwd,
    duration: native.duration,
    timestamp: new Date(native.startedAt || Date.now()).toISOString(),
    ...(native.cpu !== undefined && { usage: usageOf(native.cpu, native) }),
    timedOut,
    cancelled,
    killedBy: killedByOf(native.killedBy),
    ...truncation(out, err),
    sessionRestarted,
    ...(native.lostState && { lostState: native.lostState }),
    denials: (native.denials ?? []).map(denialOf),
    ...(native.withheld && { withheld: native.withheld }),
    all: strip(stdout.length > 0 ? stdout : stderr),
  }
  if (native.order !== undefined) defineLazily(result, 'all', interleaving([out, err], native.order, strip))
  return result
}

/** What a command has used, in public form. */
export function usageOf(cpuMs: number, native: Omit<NativeCommandUsage, 'cpu'>): Usage {
  const { diskRead = 0, diskWritten = 0, sent, received } = native
  return {
    cpuMs,
    readBytes: diskRead,
    writtenBytes: diskWritten,
    ...(sent !== undefined && received !== undefined && { sentBytes: sent, receivedBytes: received }),
  }
}

/** How many bytes of a stream are missing, at which offset, and how its text marks the gap. */
interface Kept {
  missing: number
  at: number
  omission: Omission | undefined
}

const COMPLETE: Kept = { missing: 0, at: 0, omission: undefined }

function kept(output: string | Buffer, dropped = 0, maxBuffer: number, encoding: Encoding): Kept {
  if (dropped === 0) return COMPLETE
  const cut = cutOf(maxBuffer)
  const omission =
    typeof output === 'string' || encoding === 'buffer' ? undefined : omissionIn(output, cut, dropped)
  if (omission === undefined) return { missing: dropped, at: Math.min(cut, output.length), omission }
  return { missing: omission.missing, at: omission.start, omission }
}

function truncation(out: Kept, err: Kept): Pick<AnyResult, 'truncated' | 'truncatedAt'> {
  if (out.missing + err.missing === 0) return { truncated: null, truncatedAt: null }
  return {
    truncated: { stdout: out.missing, stderr: err.missing },
    truncatedAt: { stdout: out.at, stderr: err.at },
  }
}

function isUndecoded(output: string | Buffer, encoding: Encoding): output is Buffer {
  return encoding === 'utf8' && typeof output !== 'string'
}

async function decodeKept(bytes: Buffer, { omission }: Kept): Promise<string> {
  if (omission === undefined) return decodeText(bytes)
  const head = await decodeText(bytes.subarray(0, omission.start))
  return head + omission.marker + (await decodeText(bytes.subarray(omission.end)))
}

interface Stream extends Kept {
  output: AnyOutput
  raw: string | Buffer
}

/** The getter of `all`. It keeps the bytes only if the text does not show where they were cut. */
function interleaving(
  [out, err]: readonly [Stream, Stream],
  order: Uint32Array,
  strip: (output: AnyOutput) => AnyOutput,
): () => AnyOutput {
  const [stdout, stderr] = [out.output, err.output]
  if (typeof stdout !== 'string' || typeof stderr !== 'string') {
    return () => strip(interleaveBytes(stdout as Uint8Array, stderr as Uint8Array, order))
  }
  const texts = [textOf(stdout, out), textOf(stderr, err)] as const
  return () => strip(interleaveText(...texts, order))
}

function textOf(text: string, { raw, omission }: Stream): StreamText {
  const isNeeded = typeof raw !== 'string' && (omission !== undefined || raw.length !== text.length)
  return { text, bytes: isNeeded ? raw : undefined, omission }
}

/** Strips one final \n or \r\n. */
export function stripFinalNewline(output: AnyOutput): AnyOutput {
  const end = output.length
  if (typeof output === 'string') {
    if (!output.endsWith('\n')) return output
    return output.slice(0, output.endsWith('\r\n') ? end - 2 : end - 1)
  }
  if (output[end - 1] !== 0x0a) return output
  return output.subarray(0, output[end - 2] === 0x0d ? end - 2 : end - 1)
}
