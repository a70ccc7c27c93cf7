/**
 * Checks the options of every wait for a process: how long, for what, how often to check.
 */
import { invalidOption } from '../base/errors.js'
import { regExpOf } from '../base/realm.js'
import type { WaitLimits } from '../base/waiting.js'
import type { LogMatch } from '../calls/index.js'
import {
  portOptions,
  type statusRange,
  waitForLogOptions,
  type waitForOptions,
  waitForPortOptions,
  waitOptions,
} from '../calls/waits.js'
import type { FoundLine } from '../protocol/endpoints.js'
import { portNumber } from '../schema/http.js'
import type { CompleteValues } from '../schema/kind.js'
import { quote, readArgument, readOptions, readWithDefaults, refusal } from '../schema/read.js'
import { linearExpression } from './linear-expression.js'

/** Checks the options of `waitForExit`. Throws OptionError. */
export function planWait(options: unknown): WaitLimits {
  return readWithDefaults(waitOptions, orTimeout(options), 'waitForExit')
}

/** The options of a wait, of which a number is the timeout. A text is none, which the error says. */
function orTimeout(options: unknown): unknown {
  return typeof options === 'number' || typeof options === 'string' ? { timeout: options } : options
}

/** What to wait for, and for how long. */
export type WaitForPlan = CompleteValues<typeof waitForOptions>

/** What `waitForInput` waits for, in its errors. */
export const INPUT_AWAITED = 'one of its programs waited for input'

/** The wait of `waitForInput`, as one for the first of several things. */
export function planInput(limits: WaitLimits): WaitForPlan {
  return { ...limits, input: true, log: undefined, fromLine: 1, idle: undefined }
}

/** What a line of a log must contain. The engine looks for it. */
export interface LinePattern {
  /** The pattern as given, of this realm. */
  source: string | RegExp
  /** Text, or an expression for the engine. */
  wanted: { isText: boolean; pattern: string }
  /** The names of the groups of an expression, from the first one on. */
  names: readonly (string | undefined)[]
  /** For messages. */
  shown: string
}

/** The line that waitForLog waits for, and its limits. */
export type LogPlan = CompleteValues<typeof waitForLogOptions> & { pattern: LinePattern }

/** Checks the arguments of `waitForLog`. Throws OptionError. */
export function planWaitForLog(pattern: unknown, options: unknown): LogPlan {
  const checked = readArgument(linePattern, pattern, 'pattern')
  return { ...readWithDefaults(waitForLogOptions, orTimeout(options), 'waitForLog'), pattern: checked }
}

/** Maximum characters of a RegExp. */
export const MOST_PATTERN_CHARACTERS = 1000

/** Reads text that a line must contain, or a regular expression. Each line is tested separately. */
export function linePattern(value: unknown, name: string): LinePattern {
  const expression = regExpOf(value)
  if (expression !== undefined) return regularExpression(expression, name)
  if (typeof value !== 'string' || value === '')
    throw refusal(name, 'must be a RegExp or a non-empty string', value)
  if (value.includes('\n'))
    throw invalidOption(`${name} must not contain a newline: lines are tested one by one`)
  return { source: value, wanted: { isText: true, pattern: value }, names: [], shown: quote(value) }
}

/** The flags that make a match depend on the previous match have no effect. */
function regularExpression(source: RegExp, name: string): LinePattern {
  if (source.source.length > MOST_PATTERN_CHARACTERS)
    throw invalidOption(`${name} must be a RegExp of at most ${MOST_PATTERN_CHARACTERS} characters`)
  const { text, names } = linearExpression(source, name)
  return { source, wanted: { isText: false, pattern: text }, names, shown: String(source).slice(0, 80) }
}

/** The result of a wait for a line, as `exec` of the RegExp would give the match. */
export function logMatch(
  { source, names }: LinePattern,
  { line, input = line, spans = [] }: FoundLine,
): LogMatch {
  const [start = 0, end = 0] = spans
  if (typeof source === 'string') return { line }
  const pairs = [[start, end], ...names.map((_, group) => spans.slice(2 * group + 2, 2 * group + 4))]
  const indices = pairs.map(([first = -1, last]) => (first < 0 ? undefined : [first, last]))
  const texts = indices.map((pair) => (pair === undefined ? undefined : input.slice(...pair)))
  const match = Object.assign(texts, { index: start, input, groups: named(names, texts) })
  if (source.hasIndices)
    Object.assign(match, { indices: Object.assign(indices, { groups: named(names, indices) }) })
  return { line, match: match as RegExpExecArray }
}

/** The groups with a name; undefined if there is none. */
function named<T>(
  names: readonly (string | undefined)[],
  values: readonly (T | undefined)[],
): Record<string, T | undefined> | undefined {
  if (!names.some((name) => name !== undefined)) return undefined
  const groups: Record<string, T | undefined> = Object.create(null)
  names.forEach((name, group) => {
    // Of the groups with the same name, at most one takes part.
    if (name !== undefined) groups[name] ??= values[group + 1]
  })
  return groups
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
    throw invalidOption("path and status need mode 'http'; mode 'tcp' requests no page")
  const { mode = asked ? 'http' : 'tcp' } = values
  const http =
    mode === 'http' ? { path: path ?? portOptions.path.default, status: status ?? DEFAULT_STATUS } : undefined
  return { port, http, interval }
}
