/** Isolation rules in a file. */
import { invalidOption } from '../../../base/errors.js'
import { smallText } from '../../../base/small-file.js'
import { isolation } from '../../../calls/isolation.js'
import { completeRules, type GivenRules } from '../../../schema/isolation-rules.js'

/** The rules of a file, with those of `given` added. Throws OptionError. */
export function withFile(file: string, given: GivenRules = {}): GivenRules {
  const rules = rulesIn(file)
  // What is added to a list that the file leaves out is added to its default.
  const { write, hide } = completeRules({
    ...rules,
    ...(given.preset && { preset: given.preset }),
  }).filesystem
  const filesystem = { ...(given.filesystem && { write, hide }), ...rules.filesystem }
  return joined({ ...rules, filesystem }, given) as GivenRules
}

function rulesIn(file: string): GivenRules {
  const subject = `isolationFile ${file}`
  let value: unknown
  try {
    value = JSON.parse(smallText(file, subject))
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    throw invalidOption(`${subject} must be JSON: ${cause.message}`, { cause })
  }
  // Editors read it.
  if (isObject(value)) delete value.$schema
  const rules = isolation.read(value, `${subject}: isolation`)
  if (rules.learn)
    throw invalidOption(
      `${subject} must not have learn, with which rules refuse nothing: set isolation.learn`,
    )
  if (typeof rules.network !== 'object' || rules.network.secrets === undefined) return rules
  throw invalidOption(
    `${subject} must not have network.secrets, because anyone who can read the file could read their values: ` +
      'pass them in isolation.network.secrets or with --secret',
  )
}

/** Lists one after the other, the members of both objects, and otherwise what comes second, if there is something. */
function joined(first: unknown, second: unknown): unknown {
  if (Array.isArray(first) && Array.isArray(second)) return [...first, ...second]
  if (!isObject(first) || !isObject(second)) return second === undefined ? first : second
  const names = new Set([...Object.keys(first), ...Object.keys(second)])
  return Object.fromEntries([...names].map((name) => [name, joined(first[name], second[name])]))
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
