/**
 * Reads the parameters, the query and the JSON body of a request by the kinds of its route, and names the first faults.
 *
 * Each value is checked by the kind that checks it in a local call, so the bounds and the rules in messages are the same.
 * The result has what a caller would give: bytes for base64, for example. Only own properties are read, and the objects of
 * the result have no prototype.
 */

import type { OptionErrorCode } from 'nacre'
import { kinds, OptionError } from 'nacre/internal'
import { owns, protocol } from 'nacre/internal/server'
import { fromBase64 } from './wire.js'

/** Faults that a refusal names. A body can have millions. */
const MOST_FAULTS = 10

/** A name in a request can be as long as its body. */
const MOST_PATH_CHARACTERS = 128

/** The members of the parameters, the query or the body of a request. `accepts` is never set: it has their types. */
export interface Shape<T> extends kinds.OptionsSchema {
  accepts?: (value: T) => T
}

export type Given<S> = S extends Shape<infer T> ? T : never

/** Members, of which `required` must be given. */
export function shape<T extends kinds.OptionTable, R extends keyof T & string = never>(
  options: T,
  required: readonly R[] = [],
  isOpen = false,
): Shape<kinds.OptionInput<T, NoInfer<R>>> {
  return { options, required, isOpen }
}

interface Fault {
  path: string
  message: string
  code: OptionErrorCode
}

/** Names the first faults of a request. */
export class RequestError extends OptionError {
  readonly issues: object[]

  /** `whole`: what has the faults, like 'the body'. */
  constructor(faults: readonly Fault[], whole: string) {
    const issues = faults.map(({ path, message }) => ({ path, message }))
    const text = issues.map(({ path, message }) => `${path === '' ? whole : path}: ${message}`).join('; ')
    super(faults[0]?.code ?? 'INVALID_OPTION', text)
    this.issues = issues
  }
}

/** What a request gives. Throws RequestError, which calls it `whole`. */
export function readJson<T>(expected: Shape<T>, json: unknown, whole: string): T {
  const faults: Fault[] = []
  const value = isObject(json) ? membersOf(expected, json, '', faults) : undefined
  if (value === undefined)
    faults.push({
      path: '',
      message: `must be an object, not ${kinds.describe(json)}`,
      code: 'INVALID_OPTION',
    })
  if (faults.length > 0) throw new RequestError(faults.slice(0, MOST_FAULTS), whole)
  return value as T
}

type ObjectSchema = kinds.OptionsSchema | Extract<kinds.Schema, { values: unknown }>

function membersOf(schema: ObjectSchema, json: object, path: string, faults: Fault[]): object {
  const values: Record<string, unknown> = Object.create(null)
  const given = json as Record<string, unknown>
  const add = (option: protocol.Sendable, name: string) => {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    values[name] = memberOf(option, value, path === '' ? name : `${path}.${name}`, faults)
  }
  if (owns(schema, 'values')) {
    for (const name of ownNames(given)) {
      add(schema.values, name)
      if (faults.length >= MOST_FAULTS) break
    }
    return values
  }
  const options = new Map(protocol.sendable(schema.options))
  for (const [name, option] of options)
    if (Object.hasOwn(given, name) || schema.required.includes(name)) add(option, name)
  if (schema.isOpen) return values
  const unknown: string[] = []
  for (const name of ownNames(given)) {
    if (!options.has(name)) unknown.push(kinds.unknownOption(name, [...options.keys()]))
    if (unknown.length === MOST_FAULTS) break
  }
  if (unknown.length > 0) faults.push({ path, message: unknown.join('; '), code: 'INVALID_OPTION' })
  return values
}

/** The names of own properties. Object.keys would first copy all of them, which takes longer than to parse them. */
function* ownNames(json: object): Generator<string> {
  for (const name in json) if (Object.hasOwn(json, name)) yield name
}

function memberOf(
  { read, json: form }: protocol.Sendable,
  json: unknown,
  path: string,
  faults: Fault[],
): unknown {
  const before = faults.length
  const object = isObject(json) ? objectIn(form.schema, json) : undefined
  const given = object === undefined ? json : membersOf(object, json as object, path, faults)
  if (faults.length > before) return undefined
  const isTyped = fits(form, json)
  try {
    if (!isTyped && form.rule !== undefined) throw new OptionError('INVALID_OPTION', form.rule)
    const value = isTyped && form.decode !== undefined ? form.decode(given as never, fromBase64) : given
    read(value, path)
    return value
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    const { message } = error
    // A message begins with the name of the value, or of an item of it.
    const end = message.startsWith(path) ? message.indexOf(' ', path.length) : -1
    const [at, rule] = end < 0 ? [path, message] : [message.slice(0, end), message.slice(end + 1)]
    faults.push({
      path: at.length > MOST_PATH_CHARACTERS ? `${at.slice(0, MOST_PATH_CHARACTERS)}...` : at,
      message: json === undefined ? `is missing; it ${rule.replace(/, not undefined$/, '')}` : rule,
      code: isTyped ? error.code : 'INVALID_OPTION',
    })
    return undefined
  }
}

/** The object among the alternatives of a schema: the one whose required members are given, if there are several. */
function objectIn(schema: kinds.Schema, json: object): ObjectSchema | undefined {
  if (owns(schema, 'options') || owns(schema, 'values')) return schema
  if (!owns(schema, 'anyOf')) return undefined
  const objects = schema.anyOf.flatMap((one) => objectIn(one.schema, json) ?? [])
  if (objects.length === 1) return objects[0]
  return objects.find(
    (one) => owns(one, 'options') && one.required.every((name) => Object.hasOwn(json, name)),
  )
}

/** Whether it has the JSON type. Members of objects are checked by themselves. */
function fits({ schema }: kinds.Typed, json: unknown): boolean {
  if (owns(schema, 'isAny')) return json !== undefined
  if (owns(schema, 'anyOf')) return schema.anyOf.some((one) => fits(one, json))
  if (owns(schema, 'nullable')) return json === null || fits(schema.nullable, json)
  if (owns(schema, 'items')) return Array.isArray(json) && json.every((item) => fits(schema.items, item))
  if (!owns(schema, 'type')) return isObject(json)
  if (schema.enum !== undefined) return schema.enum.includes(json)
  return typeof json === (schema.type === 'integer' ? 'number' : schema.type)
}

function isObject(json: unknown): json is object {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
}
