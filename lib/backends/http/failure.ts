/**
 * Converts the error envelopes of the server to the errors that the same call throws locally.
 */

import { AbortError, invalidOption, isCode, OptionError, readKind, SandboxError } from '../../base/errors.js'
import { ownOnly } from '../../base/own.js'
import type { Encoding, OptionErrorCode, SandboxErrorCode } from '../../calls/index.js'
import { execResult } from '../../calls/result.js'
import { malformed } from '../../schema/reply.js'

export interface Envelope {
  code: string
  message: string
  context: {
    /** The class of the error; none for a refusal of the server itself. */
    name?: string
    kind?: unknown
    result?: object
    logTail?: string
    shortMessage?: string
    /** What has aborted the call, if it was the server. */
    reason?: string
    path?: string
    paths?: string[]
  }
  httpStatus: number
}

/** What the error of a request refers to. */
export interface Asked {
  encoding?: Encoding
  signal?: AbortSignal | undefined
  /** What was aborted, for the message. */
  subject?: string
}

/** What helps against a refusal that only the caller's settings cause. */
const REMEDIES = new Map([
  [
    'CALLER_NOT_FOUND',
    ': the server has started again, and the call may have run before; look before you repeat it',
  ],
  ['NOT_FOUND', ': check the URL of the server'],
  ['UNAUTHORIZED', ': give the client the token of the server with the option token'],
])

export function isEnvelope(value: unknown): value is Envelope {
  const { code, httpStatus } = (value ?? {}) as Partial<Envelope>
  return typeof code === 'string' && typeof httpStatus === 'number'
}

/** `envelope`: as it was received. */
export function errorOf(envelope: Envelope | undefined, asked: Asked = {}): Error {
  if (!isEnvelope(envelope)) return malformed()
  const { encoding = 'utf8', signal, subject } = ownOnly(asked)
  const { code, message } = envelope
  // A proxy's reply may only look like one of the server.
  const context = ownOnly(envelope.context ?? {})
  const result = context.result && execResult.decode(context.result, encoding)
  const { shortMessage = message, reason } = context
  switch (context.name) {
    case 'OptionError':
      return new OptionError(code as OptionErrorCode, message)
    case 'AbortError':
      return new AbortError(
        signal?.reason ?? (reason && new Error(reason)),
        result,
        result === undefined && reason === undefined ? subject : { message, shortMessage },
      )
    case 'SandboxError':
      return new SandboxError(code as SandboxErrorCode, message, {
        kind: readKind(context.kind),
        result,
        shortMessage,
        logTail: context.logTail,
        path: context.path,
        paths: context.paths,
      })
    default:
      if (code === 'VALIDATION_FAILED') return invalidOption(message)
      return new SandboxError('REQUEST_REFUSED', `${code}: ${message}${REMEDIES.get(code) ?? ''}`, {
        cause: envelope,
        kind: readKind(context.kind),
      })
  }
}

/** Whether an error is one of this library, which needs no explanation. */
export function isOurs(error: unknown): boolean {
  return error instanceof SandboxError || error instanceof OptionError || error instanceof AbortError
}

/** The server's own code in a REQUEST_REFUSED. */
export function refusalCode(error: unknown): string | undefined {
  const { cause } = error instanceof SandboxError ? error : {}
  return isEnvelope(cause) ? cause.code : undefined
}

export function connectionError(message: string, cause?: unknown): SandboxError {
  return new SandboxError('CONNECTION_FAILED', message, { cause })
}

/** Statuses of a proxy whose server is unavailable for a moment. */
export const UNAVAILABLE = new Set([502, 503, 504])

/** The error of a reply that is not from the server, but from a proxy before it, or from another server. */
export function proxyError(path: string, status: number, reply: unknown): SandboxError {
  const { detail } = (reply ?? {}) as { detail?: unknown }
  const text = typeof detail === 'string' ? `: ${detail.slice(0, 500)}` : ''
  const message = `${path} was answered with status ${status}${text || remedyOf(status)}`
  if (text === '' || status >= 500) return connectionError(message, { status })
  return new SandboxError('REQUEST_REFUSED', message, { cause: { status } })
}

/** What to check when a proxy, or another server, has answered without an explanation. */
function remedyOf(status: number): string {
  return UNAVAILABLE.has(status)
    ? ' by a proxy: check that the server behind it runs'
    : ', not by a nacre server: check the URL of the server, and the proxies before it'
}

/** Whether the same request may succeed a moment later: the server is unavailable, ends or is overloaded. */
export function isInterruption(error: unknown): boolean {
  if (error instanceof AbortError || isCode(error, 'CONNECTION_FAILED', 'SANDBOX_DESTROYED')) return true
  return isBusy(error)
}

/** Whether the server has refused a request because of its load or its end. */
export function isBusy(error: unknown): boolean {
  return ['OVERLOADED', 'SHUTTING_DOWN'].includes(refusalCode(error) ?? '')
}
