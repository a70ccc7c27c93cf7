/**
 * The JSON bodies of checked requests. Options that were left out are not sent: the sandbox of the server has defaults.
 */

import { execOptions } from '../../calls/exec.js'
import { processOptions } from '../../calls/process.js'
import { encodeOptions } from '../../protocol/codec.js'
import type { ExecRequest } from '../../requests/exec.js'
import type { ProcessRequest } from '../../requests/process.js'
import type { HealthCheck, ServiceRequest } from '../../requests/service.js'
import { type CheckedInput, encodeCommand } from '../../schema/command.js'
import { holdHeaders } from './hold.js'

/** Bytes of input in one request. Also as base64, it fits into the default limit of a body. */
const MOST_BYTES_AT_ONCE = 1024 * 1024

/** A request, and the input that is sent while the command runs. */
export interface Sendable {
  body: object
  source: AsyncIterable<unknown> | undefined
}

/**
 * The headers of a command: the hold of its caller, and its trace context, for the proxies on the way. The command has that
 * in its environment.
 */
export function execHeaders({ values: { env }, hold }: ExecRequest): Record<string, string> {
  const headers = holdHeaders(hold)
  for (const [at, name] of (env?.names ?? []).entries()) {
    const value = env?.values[at]
    // What no header can have is left to the environment.
    if (/^TRACE(PARENT|STATE)$/.test(name) && value && /^[\x20-\x7e]+$/.test(value))
      headers[name.toLowerCase()] = value
  }
  return headers
}

/** A command that one request runs to its end; undefined when a signal or input needs the live run. */
export function planExec(request: ExecRequest): object | undefined {
  const { inline, source } = divideInput(request.values.input)
  if (source !== undefined || request.values.signal !== undefined) return undefined
  return { ...execBody(request, inline), encoding: request.encoding }
}

/** A command with live output, which is sent as bytes, since a reader may want them. */
export function planLiveExec(request: ExecRequest): Sendable {
  const { inline, source } = divideInput(request.values.input)
  const body = {
    ...execBody(request, inline),
    wholeResult: request.wholeResult ? true : undefined,
    encoding: request.encoding,
    byteEvents: true,
    openInput: request.values.input === 'pipe' || source !== undefined ? true : undefined,
  }
  return { body, source }
}

function execBody({ command, sessionId, values }: ExecRequest, input: Uint8Array | undefined): object {
  return { command: encodeCommand(command), sessionId, ...encodeOptions(execOptions, { ...values, input }) }
}

export function planProcess({ command, sessionId, values }: ProcessRequest): Sendable {
  const { inline, source } = divideInput(values.input)
  const isOpen =
    values.input === 'pipe' || source !== undefined || (values.pty !== undefined && inline === undefined)
  const body = {
    command: encodeCommand(command),
    sessionId,
    ...encodeOptions(processOptions, { ...values, input: inline }),
    openInput: isOpen ? true : undefined,
  }
  return { body, source }
}

export function planService({ process, healthCheck, restart, restartDelay }: ServiceRequest): Sendable {
  const { body, source } = planProcess(process)
  return { body: { ...body, restart, restartDelay, healthCheck: checkBody(healthCheck) }, source }
}

function checkBody(check: HealthCheck): object {
  const { timeout } = check
  if (check.kind === 'command')
    return { command: encodeCommand(check.command), interval: check.interval, timeout }
  if (check.kind === 'log') return { log: patternBody(check.pattern), timeout }
  const { port, interval } = check.probe
  return { port, ...probeBody(check.probe), interval, timeout }
}

/** A pattern as the caller gave it, which the server checks. */
export function patternBody({ source }: { source: string | RegExp }): unknown {
  return source instanceof RegExp ? { source: source.source, flags: source.flags } : source
}

export function probeBody({ http }: { http: object | undefined }): object {
  return http === undefined ? { mode: 'tcp' } : { mode: 'http', ...http }
}

/** Input that is too large for one request is sent while the command runs. */
function divideInput(input: CheckedInput | 'pipe' | undefined): {
  inline?: Uint8Array | undefined
  source?: AsyncIterable<unknown> | undefined
} {
  if (input === 'pipe') return {}
  if (!(input instanceof Uint8Array)) return { source: input }
  return input.length > MOST_BYTES_AT_ONCE ? { source: whole(input) } : { inline: input }
}

async function* whole(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** The bytes in pieces that fit into requests; at least one. */
export function* piecesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let start = 0; start === 0 || start < bytes.length; start += MOST_BYTES_AT_ONCE)
    yield bytes.subarray(start, start + MOST_BYTES_AT_ONCE)
}
