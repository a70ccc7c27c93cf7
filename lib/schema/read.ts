/**
 * Reads an options object against a table of options: the only way in which options are validated.
 *
 * Each own property is read once, so a getter or proxy cannot show one value to the check and another to the use. Inherited
 * properties are not options. `undefined` counts as not given.
 */
import { invalidOption, OptionError } from '../base/errors.js'
import type { OptionErrorCode } from '../base/types.js'
import type { CallTable, CompleteValues, OptionTable, OptionValues, Reader } from './kind.js'
import { nearestName, placeOf } from './nearest.js'

/** The checked options. `owner` names the call for messages, like 'exec'. */
export function readOptions<T extends OptionTable>(table: T, value: unknown, owner: string): OptionValues<T> {
  if (value === undefined) return Object.create(null)
  const rule = `must be an object like { ${Object.keys(table)[0]}: ... }`
  const read = (given: unknown, name: string) => readEntries(given, name, { rule })
  return readTable(table, readArgument(read, value, `the options of ${owner}`), owner, '')
}

/** Reads the options of a call, all of which the result has: as given, with the default of the table, or undefined. */
export function readWithDefaults<T extends CallTable>(
  table: T,
  value: unknown,
  owner: string,
): CompleteValues<T> {
  return withDefaults(table, readOptions(table, value, owner))
}

/** Adds the options that were not given. Each becomes an own property, so that spreading keeps it. */
export function withDefaults<T extends CallTable>(table: T, given: OptionValues<T>): CompleteValues<T> {
  const values: Record<string, unknown> = Object.create(null)
  for (const [name, option] of Object.entries(table)) {
    const usual = Object.hasOwn(option, 'default') ? option.read(option.default, name) : undefined
    values[name] = Object.hasOwn(given, name) ? given[name] : usual
  }
  return values as CompleteValues<T>
}

/**
 * An option that is an object with its own options, which messages call 'limits.memory', for example. `isSecret`: messages do
 * not show what was given.
 */
export function readGroup<T extends OptionTable>(
  table: T,
  value: unknown,
  name: string,
  isSecret = false,
): OptionValues<T> {
  return readTable(table, readEntries(value, name, { isSecret }), name, `${name}.`, isSecret)
}

function readTable<T extends OptionTable>(
  table: T,
  entries: Array<[string, unknown]>,
  owner: string,
  prefix: string,
  isSecret = false,
): OptionValues<T> {
  // Without a prototype: what others have added to Object.prototype is no option.
  const values: OptionValues<T> = Object.create(null)
  for (const [name, item] of entries) {
    const entry = Object.hasOwn(table, name) ? table[name] : undefined
    const read = typeof entry === 'function' ? entry : entry?.read
    if (read === undefined) {
      throw invalidOption(`${owner} has ${unknownOption(name, Object.keys(table), isSecret)}`)
    }
    if (item !== undefined)
      values[name as keyof T] = readArgument(read, item, prefix + name) as OptionValues<T>[keyof T]
  }
  return values
}

/** A shorter name is no secret in a wrong place. */
const SHORTEST_SECRET = 8

/** Says that an option is unknown, which name is nearest or which call has it, and which options there are. */
export function unknownOption(name: string, known: readonly string[], isSecret = false): string {
  const nearest = nearestName(name, known)
  const place = placeOf(name)
  const elsewhere = nearest === undefined && place !== undefined ? ` (${place} has it)` : ''
  const options = nearest === undefined ? 'it has' : `did you mean "${nearest}"? It has`
  const isShown = !isSecret || nearest !== undefined || name.length < SHORTEST_SECRET
  const shown = isShown ? quote(name) : 'of this name'
  return `no option ${shown}${elsewhere}; ${options}: ${known.join(', ')}`
}

/** Checks one value. An exception of a getter or a proxy becomes the cause of an OptionError. */
export function readArgument<T>(reader: Reader<T>, value: unknown, name: string): T {
  try {
    return reader(value, name)
  } catch (cause) {
    if (cause instanceof OptionError) throw cause
    throw invalidOption(`${name} cannot be read`, { cause })
  }
}

/** The own enumerable properties of an object, each read once. Anything but an object is refused. */
export function readEntries(
  value: unknown,
  name: string,
  { rule = 'must be an object', isSecret = false } = {},
): Array<[string, unknown]> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const entries = Object.entries(value)
    // A promise or a Map has no such properties, and would count as no options.
    if (entries.length > 0 || PLAIN.has(tagOf(value))) return entries
  }
  throw refusal(name, rule, value, { isSecret })
}

/** Objects whose properties are options: those of literals and classes, and modules. */
const PLAIN = new Set(['Object', 'Module'])

/** The kind of an object, like 'Object', 'Promise' or 'Map', also of one from another realm. */
function tagOf(value: object): string {
  return Object.prototype.toString.call(value).slice(8, -1)
}

/** How the error for a value differs from others. */
export interface RefusalTraits {
  code?: OptionErrorCode
  /** Messages do not show the value. */
  isSecret?: boolean
}

/** The error for a value: the rule that it breaks, like 'must be an object', and what it is. */
export function refusal(
  name: string,
  rule: string,
  value: unknown,
  { code = 'INVALID_OPTION', isSecret = false }: RefusalTraits = {},
): OptionError {
  return new OptionError(
    code,
    isSecret && value !== undefined ? `${name} ${rule}` : `${name} ${rule}, not ${describe(value)}`,
  )
}

/** Describes a bad value in a message: always short and on one line. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return 'an array'
  const tag = tagOf(value)
  if (tag === 'Promise') return 'a promise: await it'
  if (tag === 'AbortController') return 'an AbortController: pass its signal'
  return PLAIN.has(tag) ? 'an object' : `an object of the kind ${tag.slice(0, 80)}`
}

/** A string as JSON, cut to 80 characters. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text)
}
