/**
 * Reads an options object against a table of option names: the one way in which options are validated.
 *
 * Each own property is read once, so a getter or proxy cannot show one value to the check and another to the use.
 * Inherited properties are not options. `undefined` counts as not given.
 */
import { OptionError } from '../base/errors.js'
import type { OptionTable, OptionValues, Reader } from './option.js'

/** The checked options. `owner` is what they are options of, for messages, like 'exec'. */
export function readOptions<T extends OptionTable>(table: T, value: unknown, owner: string): OptionValues<T> {
  if (value === undefined) return {}
  return readTable(table, readArgument(readEntries, value, `the options of ${owner}`), owner, '')
}

/** An option that is an object with options of its own, which are called like 'limits.memory' in messages. */
export function readGroup<T extends OptionTable>(table: T, value: unknown, name: string): OptionValues<T> {
  return readTable(table, readEntries(value, name), name, `${name}.`)
}

function readTable<T extends OptionTable>(
  table: T,
  entries: Array<[string, unknown]>,
  owner: string,
  prefix: string,
): OptionValues<T> {
  const values: OptionValues<T> = {}
  for (const [name, item] of entries) {
    const entry = Object.hasOwn(table, name) ? table[name] : undefined
    const read = typeof entry === 'function' ? entry : entry?.read
    if (read === undefined) {
      const known = Object.keys(table).join(', ')
      throw new OptionError('INVALID_OPTION', `${owner} has no option ${quote(name)}; it has: ${known}`)
    }
    if (item !== undefined)
      values[name as keyof T] = readArgument(read, item, prefix + name) as OptionValues<T>[keyof T]
  }
  return values
}

/** Checks one value. What a getter or a proxy throws meanwhile is the cause of an OptionError. */
export function readArgument<T>(reader: Reader<T>, value: unknown, name: string): T {
  try {
    return reader(value, name)
  } catch (cause) {
    if (cause instanceof OptionError) throw cause
    throw new OptionError('INVALID_OPTION', `${name} cannot be read`, { cause })
  }
}

/** The own enumerable properties of an object, each read once. Anything but an object is refused. */
export function readEntries(value: unknown, name: string): Array<[string, unknown]> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return Object.entries(value)
  throw new OptionError('INVALID_OPTION', `${name} must be an object, not ${describe(value)}`)
}

/** Names a bad value in a message: short, on one line, whatever it is. */
export function describe(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'function' || typeof value === 'symbol') return `a ${typeof value}`
  if (typeof value !== 'object' || value === null) return String(value)
  return Array.isArray(value) ? 'an array' : 'an object'
}

/** A string as JSON, cut to 80 characters. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text)
}
