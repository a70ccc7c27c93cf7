/**
 * The options of everything that waits for a process: how long, for what, how often to look.
 */
import { OptionError } from '../errors'
import { byteCount, interval, milliseconds, wholeNumber } from './numbers'
import { describe, quote, type Reader, readArgument, readGroup, readOptions } from './read'
import { abortSignal } from './signals'

/** When a wait is given up. */
export interface WaitLimits {
  /** Milliseconds, 0 = none. */
  timeout: number
  signal: AbortSignal | undefined
}

const waitOptions = { timeout: milliseconds, signal: abortSignal }

/** Checks the options of `wait`. Throws OptionError. */
export function planWait(options: unknown): WaitLimits {
  const { timeout = 0, signal } = readOptions(waitOptions, options, 'wait')
  return { timeout, signal }
}

/** Checks the argument of `waitForExit`. Throws OptionError. */
export function planWaitForExit(timeout: unknown): WaitLimits {
  return {
    timeout: timeout === undefined ? 0 : readArgument(milliseconds, timeout, 'timeout'),
    signal: undefined,
  }
}

/** What a line of a log is to have. */
export interface LinePattern {
  /** The line, and where a regular expression matched; undefined when it does not. */
  find(line: string): { line: string; match?: RegExpExecArray } | undefined
  /** For messages. */
  shown: string
}

/** What waitForLog waits for, and how long. */
export interface LogPlan extends WaitLimits {
  pattern: LinePattern
  /** Where in the log to begin, in bytes. */
  since: number
}

/** Checks the arguments of `waitForLog`. Throws OptionError. */
export function planWaitForLog(pattern: unknown, options: unknown): LogPlan {
  const checked = readArgument(linePattern, pattern, 'pattern')
  const table = { ...waitOptions, since: byteCount }
  const { timeout = 0, signal, since = 0 } = readOptions(table, options, 'waitForLog')
  return { pattern: checked, since, timeout, signal }
}

/** Text that a line contains, or a regular expression that matches it. It is tested line by line. */
export function linePattern(value: unknown, name: string): LinePattern {
  if (value instanceof RegExp) return regularExpression(value)
  if (typeof value !== 'string' || value === '') {
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be a RegExp or a string that is not empty, not ${describe(value)}`,
    )
  }
  if (value.includes('\n'))
    throw new OptionError('INVALID_OPTION', `${name} must not contain a newline: lines are tested one by one`)
  return { find: (line) => (line.includes(value) ? { line } : undefined), shown: quote(value) }
}

/** A copy without the flags that make a match depend on the one before. */
function regularExpression(given: RegExp): LinePattern {
  const pattern = new RegExp(given.source, given.flags.replace(/[gy]/g, ''))
  return {
    find(line) {
      const match = pattern.exec(line)
      return match === null ? undefined : { line, match }
    },
    shown: String(given).slice(0, 80),
  }
}

/** How a port is looked at. */
export interface PortProbe {
  port: number
  /** Undefined: listening is enough. */
  http: { path: string; status: StatusRange } | undefined
  interval: number
}

export interface StatusRange {
  min: number
  max: number
}

/** What waitForPort waits for, and how long. */
export interface PortPlan extends PortProbe, WaitLimits {}

/** Milliseconds between two looks at a port. */
const DEFAULT_INTERVAL_MS = 100
/** A server that answers, and not with an error. */
const DEFAULT_STATUS: StatusRange = { min: 200, max: 399 }

/** Option names that describe how to look at a port. */
export const portOptions = { mode: portMode, path: requestPath, status: statusRange, interval }

/** Checks the arguments of `waitForPort`. Throws OptionError. */
export function planWaitForPort(port: unknown, options: unknown): PortPlan {
  const number = readArgument(portNumber, port, 'port')
  const values = readOptions({ ...portOptions, ...waitOptions }, options, 'waitForPort')
  return { ...portProbe(number, values), timeout: values.timeout ?? 0, signal: values.signal }
}

/** A path or a status asks for HTTP, even when no mode does. */
export function portProbe(
  port: number,
  values: { mode?: 'http' | 'tcp'; path?: string; status?: StatusRange; interval?: number },
): PortProbe {
  const { path, status, interval = DEFAULT_INTERVAL_MS } = values
  const asked = path !== undefined || status !== undefined
  if (values.mode === 'tcp' && asked)
    throw new OptionError('INVALID_OPTION', "path and status need mode 'http'; mode 'tcp' asks for no page")
  const { mode = asked ? 'http' : 'tcp' } = values
  const http = mode === 'http' ? { path: path ?? '/', status: status ?? DEFAULT_STATUS } : undefined
  return { port, http, interval }
}

/** 1 to 65535. */
export const portNumber = wholeNumber(1, 65_535)

function portMode(value: unknown, name: string): 'http' | 'tcp' {
  if (value === 'http' || value === 'tcp') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'http' or 'tcp', not ${describe(value)}`)
}

/** What can stand in the first line of a request: it begins with a slash, and has no blanks or control characters. */
function requestPath(value: unknown, name: string): string {
  if (typeof value === 'string' && /^\/[\x21-\x7e]*$/.test(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must begin with / and be of printable ASCII without blanks, not ${describe(value)}`,
  )
}

const statusCode: Reader<number> = wholeNumber(100, 599)

/** One status, or the first and the last of a range. */
function statusRange(value: unknown, name: string): StatusRange {
  if (typeof value === 'number') {
    const only = statusCode(value, name)
    return { min: only, max: only }
  }
  const { min = 100, max = 599 } = readGroup({ min: statusCode, max: statusCode }, value, name)
  if (min <= max) return { min, max }
  throw new OptionError('INVALID_OPTION', `${name} must have a min that is not above its max`)
}
