/**
 * One option of a call: how its value is checked, how it crosses HTTP as JSON, and its bounds.
 *
 * Each call has one table of options, below its public interface in `lib/calls`, by which the compiler checks it. The
 * following use the table: the reader in `schema/read.ts` and its messages, both ends of the JSON codec
 * (`protocol/codec.ts`), the reader of requests and the OpenAPI document of `@nacre/server`, and docs/options.md. Texts come
 * from the comments of the interface (`scripts/texts.mjs`).
 */

/** Checks one value and returns it in internal form. Throws OptionError naming `name` and its bounds. */
export type Reader<T> = (value: unknown, name: string) => T

/** A JSON value without others inside, as in OpenAPI. */
export interface SimpleSchema {
  /** 'object' may have any members. */
  type: 'string' | 'number' | 'integer' | 'boolean' | 'object'
  enum?: readonly unknown[]
  pattern?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
}

/** The JSON type of an option or of a member of a reply. One with a name is a component of the OpenAPI document. */
export type Schema = { name?: string | undefined } & (
  | SimpleSchema
  /** Any JSON. */
  | { isAny: true }
  | { items: Typed }
  | { nullable: Typed }
  | { anyOf: readonly Typed[] }
  | OptionsSchema
  /** An object with a value for each of any names. */
  | { values: Option & { json: JsonForm<unknown> } }
  /** An object of a reply. */
  | { properties: Record<string, Typed & { name?: string; isOptional?: boolean }> }
)

/** An object of a request. */
export interface OptionsSchema {
  options: OptionTable
  required: readonly string[]
  /** Other members are ignored, instead of refused. */
  isOpen: boolean
}

/** What has a JSON type. `description`: what the document says about it. */
export interface Typed {
  schema: Schema
  description?: string | undefined
}

export type FromBase64 = (text: string) => Uint8Array

/** How a value crosses HTTP. */
export interface JsonForm<T> extends Typed {
  /** What the message says about JSON of another type, like 'must be text'. Default: what `read` says. */
  rule?: string
  /** The checked value as JSON; undefined if this value cannot be sent in one piece. Default: unchanged. */
  encode?(value: T): unknown
  /** The value as a caller would give it, from JSON. Default: unchanged. The runtime's own base64 decodes bytes. */
  decode?(json: never, fromBase64: FromBase64): unknown
}

/** An option, whatever its type. */
export interface Option {
  read: Reader<unknown>
  /** Absent for values that exist only in one process, like functions. */
  json?: JsonForm<unknown>
  /** Unit and bounds as the docs show them. */
  bounds: string
  /** What the OpenAPI document says about it. Default: the comment in its public interface. */
  description?: string | undefined
}

/** A kind of value that options of many calls share. `In` is what callers may give, `Out` the checked form. */
export interface Kind<In, Out = In> extends Option {
  read: Reader<Out>
  json?: JsonForm<Out>
  /** Never set: by it, the compiler compares `In` with the public type. */
  accepts?: (value: In) => In
}

/** Any function; the public types define its parameters. */
export type Callback = (...parameters: unknown[]) => unknown

/** What a kind must accept for a member of this type. */
type Given<T> = T extends undefined ? never : T extends (...parameters: never[]) => unknown ? Callback : T

/** An option of the right type for each member of a public interface. */
export type Table<T> = {
  [K in keyof T]-?: Option & {
    accepts?: (value: Given<T[K]>) => Given<T[K]>
    /** The value that holds when the option is not given. */
    default?: Extract<Given<T[K]>, string | number | boolean>
  }
}

/** Declares the options of an interface. A missing, an unknown or a wrongly typed one does not compile. */
export function table<T>() {
  return <const U extends Table<T>>(options: U & Record<Exclude<keyof U, keyof T>, never>): U => options
}

/** Options by name. A table without a public interface may also have bare readers. */
export type OptionTable = Record<string, Described | Reader<unknown>>

/** The options of a call by name. */
export type CallTable = Record<string, Described>

type Described = Option & { default?: string | number | boolean }

/** The result of reading a table: each option is set only if it was given. */
export type OptionValues<T extends OptionTable> = { -readonly [K in keyof T]?: ValueOf<T[K]> }

/** The result of reading a table with its defaults. */
export type CompleteValues<T extends CallTable> = {
  -readonly [K in keyof T]: ValueOf<T[K]> | (T[K] extends { default: unknown } ? never : undefined)
}

type ValueOf<Entry> = Entry extends { read: Reader<infer T> } ? T : Entry extends Reader<infer T> ? T : never

/** What callers may give for a table, of which `R` are required. */
export type OptionInput<T extends OptionTable, R extends keyof T> = {
  -readonly [K in Exclude<keyof T, R>]?: InputOf<T[K]>
} & { -readonly [K in R]: InputOf<T[K]> }

type InputOf<Entry> = Entry extends Kind<infer In, infer _> ? In : never
