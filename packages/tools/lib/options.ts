/** The options of `createTools`. */
import { type Call, kinds, OptionError } from 'nacre/internal'

import type { ToolName, ToolOptions } from './public.js'
import { estimateTokens } from './tokens.js'

export const TOOL_NAMES: readonly ToolName[] = [
  'bash',
  'wait',
  'write',
  'output',
  'kill',
  'service',
  'sessions',
  'jobs',
  'workspace',
]
/** A sandbox needs a workspace of its own for the last one. */
const DEFAULT_TOOLS = TOOL_NAMES.filter((name) => name !== 'workspace')

/** Clients of MCP accept 10,000 tokens, and the budget is an estimate. */
export const MOST_TOKENS = 9000
export const LEAST_TOKENS = 100

const toolNames: kinds.Kind<readonly ToolName[]> = {
  read(value, name) {
    const names = Array.isArray(value) ? [...value] : []
    if (names.length > 0 && names.every((item) => TOOL_NAMES.includes(item))) return names
    const wrong = names.find((item) => !TOOL_NAMES.includes(item))
    const not = wrong === undefined ? '' : `, not ${kinds.describe(wrong)}`
    throw new OptionError('INVALID_OPTION', `${name} must be a list of ${TOOL_NAMES.join(', ')}${not}`)
  },
  bounds: TOOL_NAMES.join(', '),
}

const countTokens: kinds.Kind<(text: string) => number> = {
  read(value, name) {
    if (typeof value === 'function') return value as (text: string) => number
    throw new OptionError('INVALID_OPTION', `${name} must be a function`)
  },
  bounds: 'a function',
}

const hint = kinds.text((text) => text !== '', 'must be a text that is not empty')

export const toolOptions = kinds.table<ToolOptions>()({
  tools: toolNames,
  timeout: { ...kinds.positiveMilliseconds, default: 600_000 },
  yieldAfter: { ...kinds.milliseconds, default: 15_000 },
  maxWait: { ...kinds.positiveMilliseconds, default: 50_000 },
  maxTokens: { ...kinds.count(LEAST_TOKENS, MOST_TOKENS), default: 4000 },
  maxRuns: { ...kinds.count(1, 10_000), default: 64 },
  keepRuns: { ...kinds.count(0, 10_000), default: 200 },
  maxSessions: { ...kinds.count(1, 10_000), default: 32 },
  redact: kinds.redact,
  countTokens: countTokens as never,
  requireSession: { ...kinds.flag, default: false },
  keepSessions: { ...kinds.flag, default: false },
  allowCommit: { ...kinds.flag, default: false },
  writeHint: hint,
  askHint: hint,
})

export type Options = ReturnType<typeof planTools>

/** Checks the options. Throws OptionError. */
export function planTools(options: unknown) {
  const values = kinds.readWithDefaults(toolOptions, options, 'createTools')
  const tools = values.tools ?? DEFAULT_TOOLS
  if (tools.includes('workspace') && values.requireSession)
    throw new OptionError(
      'INVALID_OPTION',
      'the tool workspace and requireSession exclude each other: a rollback ends the programs of all callers',
    )
  return {
    ...values,
    tools,
    redact: values.redact ?? [],
    countTokens: (values.countTokens ?? estimateTokens) as (text: string) => number,
  }
}

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'createTools', table: toolOptions, local: true }]
