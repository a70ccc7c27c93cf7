/**
 * One option of a call: how its value is checked, how it crosses HTTP as JSON, and what the docs say about it.
 *
 * A call has one table of options. From it come the reader of `options/read.ts` and its messages, both ends of the JSON
 * codec (`protocol/codec.ts`), the schema of the OpenAPI document (`server/table-schema.ts`) and docs/options.md
 * (`protocol/option-docs.ts`).
 */

/** Checks one value and returns it in the form used inside; throws OptionError naming `name` and its bounds. */
export type Reader<T> = (value: unknown, name: string) => T

/** What a value looks like in JSON. */
export type JsonSchema =
  | { type: 'number' | 'integer'; minimum?: number; maximum?: number; exclusiveMinimum?: number }
  | { type: 'string' | 'boolean' }
  | { type: 'enum'; values: readonly string[] }
  /** A schema with a name of its own in the OpenAPI document. */
  | { type: 'named'; name: 'Command' | 'Data' | 'Env' | 'Pattern' }
  | { type: 'object'; table: OptionTable }
  | { type: 'list'; of: JsonSchema }
  | { type: 'either'; of: readonly JsonSchema[] }

export type FromBase64 = (text: string) => Uint8Array

/** How a value crosses HTTP. */
export interface JsonForm<T> {
  schema: JsonSchema
  /** The checked value as JSON; undefined when this value cannot be sent in one piece. Default: as it is. */
  encode?(value: T): unknown
  /** JSON as what a caller would give. Default: as it is. Bytes are read by the runtime's own base64. */
  decode?(json: never, fromBase64: FromBase64): unknown
}

/** A kind of value, shared by options of many calls. */
export interface Kind<T> {
  read: Reader<T>
  /** Absent for values that exist in one process only, like functions. */
  json?: JsonForm<T>
  /** Unit and bounds as the docs show them. */
  bounds: string
}

/** What is particular to one option. */
export interface About {
  /** One line of documentation. */
  doc: string
  /** The value that holds when the option is not given. */
  default?: string | number | boolean
  /** The same in words, where it is not one value. */
  otherwise?: string
}

export type Option<T> = Kind<T> & About

/** The options of a call by name. A bare reader is an entry of a group that no document describes. */
export type OptionTable = Record<string, Option<unknown> | Reader<unknown>>

/** What a table reads: each option is there only when it was given. */
export type OptionValues<T extends OptionTable> = { [K in keyof T]?: ValueOf<T[K]> }

type ValueOf<Entry> = Entry extends { read: Reader<infer T> } ? T : Entry extends Reader<infer T> ? T : never

/** An option of this kind. */
export function option<T, const A extends About>(kind: Kind<T>, about: A): Kind<T> & A {
  return { ...kind, ...about }
}
