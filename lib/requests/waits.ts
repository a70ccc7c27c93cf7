/**
 * Checks the options of every wait for a process: how long, for what, how often to check.
 */
import { OptionError } from '../base/errors.js'
import type { WaitLimits } from '../base/waiting.js'
import {
  portOptions,
  type statusRange,
  waitForLogOptions,
  waitForOptions,
  waitForPortOptions,
  waitOptions,
} from '../calls/waits.js'
import { portNumber } from '../schema/http.js'
import type { CompleteValues } from '../schema/kind.js'
import { quote, readArgument, readOptions, readWithDefaults, refusal } from '../schema/read.js'

/** Checks the options of a wait without others. Throws OptionError. */
export function planWait(options: unknown, call: 'wait' | 'waitForInput'): WaitLimits {
  return readWithDefaults(waitOptions, options, call)
}

/** What to wait for, and for how long. */
export type WaitForPlan = CompleteValues<typeof waitForOptions>

/** What `waitForInput` waits for, in its errors. */
export const INPUT_AWAITED = 'one of its programs waited for input'

/** The wait of `waitForInput`, as one for the first of several things. */
export function planInput(limits: WaitLimits): WaitForPlan {
  return { ...limits, input: true, log: undefined, fromLine: 1, idle: undefined }
}

/** Checks the options of `waitFor`. Throws OptionError. */
export function planWaitFor(options: unknown): WaitForPlan {
  return readWithDefaults(waitForOptions, options, 'waitFor')
}

/** What a line of a log must contain. */
export interface LinePattern {
  /** The line, and the match of a regular expression; undefined if the line does not match. */
  find(line: string): { line: string; match?: RegExpExecArray } | undefined
  /** The pattern as given. */
  source: string | RegExp
  /** For messages. */
  shown: string
}

/** The line that waitForLog waits for, and its limits. */
export type LogPlan = CompleteValues<typeof waitForLogOptions> & { pattern: LinePattern }

/** Checks the arguments of `waitForLog`. Throws OptionError. */
export function planWaitForLog(pattern: unknown, options: unknown): LogPlan {
  const checked = readArgument(linePattern, pattern, 'pattern')
  return { ...readWithDefaults(waitForLogOptions, options, 'waitForLog'), pattern: checked }
}

/** Reads text that a line must contain, or a regular expression. Each line is tested separately. */
export function linePattern(value: unknown, name: string): LinePattern {
  if (value instanceof RegExp) return regularExpression(value)
  if (typeof value !== 'string' || value === '')
    throw refusal(name, 'must be a RegExp or a non-empty string', value)
  if (value.includes('\n'))
    throw new OptionError('INVALID_OPTION', `${name} must not contain a newline: lines are tested one by one`)
  return { find: (line) => (line.includes(value) ? { line } : undefined), source: value, shown: quote(value) }
}

/** A copy without the flags that make a match depend on the previous match. */
function regularExpression(given: RegExp): LinePattern {
  const pattern = new RegExp(given.source, given.flags.replace(/[gy]/g, ''))
  return {
    find(line) {
      const match = pattern.exec(line)
      return match === null ? undefined : { line, match }
    },
    source: given,
    shown: String(given).slice(0, 80),
  }
}

type StatusRange = ReturnType<typeof statusRange.read>

/** How to check a port. */
export interface PortProbe {
  port: number
  /** Undefined if listening is enough. */
  http: { path: string; status: StatusRange } | undefined
  interval: number
}

/** The port that waitForPort waits for, and its limits. */
export interface PortPlan extends PortProbe, WaitLimits {}

/** A response without an error. */
const DEFAULT_STATUS: StatusRange = { min: 200, max: 399 }

/** Checks the arguments of `waitForPort`. Throws OptionError. */
export function planWaitForPort(port: unknown, options: unknown): PortPlan {
  const number = readArgument(portNumber.read, port, 'port')
  const values = readOptions(waitForPortOptions, options, 'waitForPort')
  return { ...portProbe(number, values), timeout: values.timeout ?? 0, signal: values.signal }
}

/** Whether to check a port by HTTP: a path or a status implies it, even without a mode. */
export function portProbe(
  port: number,
  values: { mode?: 'http' | 'tcp'; path?: string; status?: StatusRange; interval?: number },
): PortProbe {
  const { path, status, interval = portOptions.interval.default } = values
  const asked = path !== undefined || status !== undefined
  if (values.mode === 'tcp' && asked)
    throw new OptionError('INVALID_OPTION', "path and status need mode 'http'; mode 'tcp' requests no page")
  const { mode = asked ? 'http' : 'tcp' } = values
  const http =
    mode === 'http' ? { path: path ?? portOptions.path.default, status: status ?? DEFAULT_STATUS } : undefined
  return { port, http, interval }
}
