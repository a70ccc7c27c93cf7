/** Both ends of the JSON codec: checked options to the body of a request, and the body to what a caller would give. */

import type { CallTable, FromBase64, JsonForm, OptionTable, OptionValues } from '../schema/kind.js'

/** What of the options crosses HTTP. Only own properties are options. */
export function encodeOptions<T extends OptionTable>(
  table: T,
  values: OptionValues<T>,
): Record<string, unknown> {
  const body: Record<string, unknown> = Object.create(null)
  for (const [name, { json }] of sendable(table)) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value !== undefined) body[name] = json.encode === undefined ? value : json.encode(value)
  }
  return body
}

/** The options that a body has. Names that the table does not have are left out. */
export function decodeOptions(
  table: OptionTable,
  body: Record<string, unknown>,
  fromBase64: FromBase64,
): Record<string, unknown> {
  const options: Record<string, unknown> = Object.create(null)
  for (const [name, { json }] of sendable(table)) {
    const value = Object.hasOwn(body, name) ? body[name] : undefined
    if (value !== undefined)
      options[name] = json.decode === undefined ? value : json.decode(value as never, fromBase64)
  }
  return options
}

export type Sendable = CallTable[string] & { json: JsonForm<unknown> }

/** A table never changes, and each request over HTTP needs its options twice. */
const known = new WeakMap<OptionTable, Array<[string, Sendable]>>()

/** The options of a table that can be sent. */
export function sendable(table: OptionTable): ReadonlyArray<[string, Sendable]> {
  const found = known.get(table) ?? Object.entries(table).filter(isSendable)
  known.set(table, found)
  return found
}

function isSendable(entry: [string, OptionTable[string]]): entry is [string, Sendable] {
  return typeof entry[1] === 'object' && Object.hasOwn(entry[1], 'json') && entry[1].json !== undefined
}
