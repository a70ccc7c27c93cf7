/** Both ends of the JSON codec: checked options to the body of a request, and the body to what a caller would give. */

import type { FromBase64, JsonForm, OptionTable, OptionValues } from '../schema/kind.js'
/** What of the options crosses HTTP. Only own properties are options. */
export function encodeOptions<T extends OptionTable>(
  table: T,
  values: OptionValues<T>,
): Record<string, unknown> {
  const body: Record<string, unknown> = Object.create(null)
  for (const [name, form] of sendable(table)) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value !== undefined) body[name] = form.encode === undefined ? value : form.encode(value)
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
  for (const [name, form] of sendable(table)) {
    const json = Object.hasOwn(body, name) ? body[name] : undefined
    if (json !== undefined)
      options[name] = form.decode === undefined ? json : form.decode(json as never, fromBase64)
  }
  return options
}

/** The options of a table that can be sent, and how. */
export function sendable(table: OptionTable): Array<[string, JsonForm<unknown>]> {
  return Object.entries(table).flatMap(([name, entry]) =>
    typeof entry === 'object' && entry.json !== undefined ? [[name, entry.json]] : [],
  )
}
