/**
 * One option of a call: how its value is checked, how it crosses HTTP as JSON, and its documentation.
 *
 * Each call has one table of options. The following use it: the reader in `schema/read.ts` and its messages, both ends of
 * the JSON codec (`protocol/codec.ts`), the schema of the OpenAPI document (`server/table-schema.ts`) and docs/options.md
 * (`protocol/option-docs.ts`).
 */

/** Checks one value and returns it in internal form. Throws OptionError naming `name` and its bounds. */
export type Reader<T> = (value: unknown, name: string) => T

/** The JSON type of a value. */
export type JsonSchema =
  | { type: 'number' | 'integer'; minimum?: number; maximum?: number; exclusiveMinimum?: number }
  | { type: 'string'; pattern?: string }
  | { type: 'boolean' }
  | { type: 'enum'; values: readonly string[] }
  /** A schema with its own name in the OpenAPI document. */
  | { type: 'named'; name: 'Command' | 'Data' | 'Env' | 'Pattern' }
  | { type: 'object'; table: OptionTable }
  | { type: 'strings' }
  | { type: 'either'; of: readonly JsonSchema[] }

export type FromBase64 = (text: string) => Uint8Array

/** How a value crosses HTTP. */
export interface JsonForm<T> {
  schema: JsonSchema
  /** The checked value as JSON; undefined if this value cannot be sent in one piece. Default: unchanged. */
  encode?(value: T): unknown
  /** The value as a caller would give it, from JSON. Default: unchanged. The runtime's own base64 decodes bytes. */
  decode?(json: never, fromBase64: FromBase64): unknown
}

/** A kind of value that options of many calls share. */
export interface Kind<T> {
  read: Reader<T>
  /** Absent for values that exist only in one process, like functions. */
  json?: JsonForm<T>
  /** Unit and bounds as the docs show them. */
  bounds: string
}

/** The documentation of one option. */
export interface About {
  /** One line of documentation. */
  doc: string
  /** The value that holds when the option is not given. */
  default?: string | number | boolean
  /** The default in words, if it is not a single value. */
  otherwise?: string
}

export type Option<T> = Kind<T> & About

/** The options of a call by name. */
export type CallTable = Record<string, Option<unknown>>

/** Options by name. A group that has no documentation may have kinds and bare readers. */
export type OptionTable = Record<string, Kind<unknown> | Reader<unknown>>

/** The result of reading a table: each option is set only if it was given. */
export type OptionValues<T extends OptionTable> = { [K in keyof T]?: ValueOf<T[K]> }

type ValueOf<Entry> = Entry extends { read: Reader<infer T> } ? T : Entry extends Reader<infer T> ? T : never

/** Creates an option of this kind. */
export function option<T, const A extends About>(kind: Kind<T>, about: A): Kind<T> & A {
  return { ...kind, ...about }
}
