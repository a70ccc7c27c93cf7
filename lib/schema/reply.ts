/**
 * The members of replies: how each crosses HTTP as JSON, and its type in the OpenAPI document.
 *
 * Each result has one table below its public interface (`lib/calls`), by which the compiler checks it. The server
 * encodes by it, the client decodes by it, and the document has its schemas (document.ts of `@nacre/server`).
 */
import { fromBase64 } from '../base/base64.js'
import { SandboxError } from '../base/errors.js'
import type { Encoding, Output } from '../base/types.js'
import { dataSchema, type WireData } from './command.js'
import type { Typed } from './kind.js'

export type ToBase64 = (bytes: Uint8Array) => string

/** A member of a reply, whatever its type. */
export interface AnyField extends Typed {
  /** Its name in JSON, if that is another one. */
  name?: string
  /** It may be absent in JSON. */
  isOptional?: boolean
  /** Whether to send it: reading it can be expensive. Default: always. `whole`: the object that has it. */
  isSent?: (whole: never) => boolean
  /** The value as JSON; undefined is not sent. Default: unchanged. The runtime's own base64 encodes bytes. */
  encode?: (value: never, toBase64: ToBase64) => unknown
  /** The value from JSON, which is undefined if it was not sent. Default: unchanged. `whole`: the members before it. */
  decode?: (json: never, encoding: Encoding, whole: never) => unknown
}

export interface Field<T> extends AnyField {
  encode?: (value: T, toBase64: ToBase64) => unknown
  decode?: (json: never, encoding: Encoding, whole: never) => T
}

/** A member of the right type for each member of an interface. */
export type Fields<T> = { [K in keyof T]-?: Field<T[K]> }

/** An object in JSON: a whole reply, or a member of one. */
export interface Body<T> extends Field<T> {
  /** The name of the list that is the whole reply. */
  list?: string
  encode: (value: T, toBase64: ToBase64) => object
  /** Throws CONNECTION_FAILED for what no server of this library sends. */
  decode: (json: unknown, encoding?: Encoding) => T
}

/** An object with these members. */
export interface Reply<T> extends Body<T> {
  fields: Fields<T>
}

export type ReplyValue<R> = R extends Body<infer T> ? T : never

/**
 * Declares how an interface crosses HTTP. A missing, an unknown or a wrongly typed member does not compile. JSON has the
 * members in this order.
 */
export function reply<T>(fields: Fields<T>, name?: string): Reply<T> {
  const members = Object.entries<AnyField>(fields).map(([key, field]) => ({ key, name: key, ...field }))
  return {
    schema: { properties: fields, name },
    fields,
    encode(value, toBase64) {
      const json: Record<string, unknown> = {}
      for (const { key, name, isSent, encode } of members) {
        if (isSent !== undefined && !isSent(value as never)) continue
        const member = own(value as object, key)
        if (member !== undefined) json[name] = encode === undefined ? member : encode(member, toBase64)
      }
      return json
    },
    decode(json, encoding = 'utf8') {
      const sent = objectOf(json) as object
      const value: Record<string, unknown> = {}
      for (const { key, name, decode } of members) {
        const given = own(sent, name)
        const member = decode === undefined ? given : decode(given, encoding, value as never)
        if (member !== undefined) value[key] = member
      }
      return value as T
    },
  }
}

/** A value that is the only member of an object in JSON. */
export function only<T>(member: string, field: Field<T>, name?: string): Body<T> {
  const { schema, encode, decode } = reply({ [member]: field }, name)
  return {
    schema,
    ...('items' in field.schema && { list: member }),
    encode: (value, toBase64) => encode({ [member]: value }, toBase64),
    decode: (json, encoding) => decode(json, encoding)[member] as T,
  }
}

/** Of requests that have no result. */
export const empty = reply({}) as unknown as Body<void>

/** Properties that another module has added to Object.prototype are no members. */
function own(object: object, key: string): never {
  return (Object.hasOwn(object, key) ? (object as Record<string, unknown>)[key] : undefined) as never
}

export const text: Field<string> = { schema: { type: 'string' } }
export const number: Field<number> = { schema: { type: 'number' } }
export const boolean: Field<boolean> = { schema: { type: 'boolean' } }
export const yes: Field<true> = { schema: { type: 'boolean', enum: [true] } }

/** One of the words of a type. The document does not list them. */
export function word<T extends string>(): Field<T> {
  return { schema: { type: 'string' } }
}

/** One of these words. */
export function wordOf<T extends string>(...words: readonly T[]): Field<T> {
  return { schema: { type: 'string', enum: words } }
}

export const date: Field<Date> = {
  schema: { type: 'string' },
  description: 'ISO 8601',
  encode: (value) => value.toISOString(),
  decode: (json) => new Date(json),
}

/** Bytes where text is not possible. */
export const bytes: Field<Uint8Array> = {
  schema: { type: 'string' },
  encode: (value, toBase64) => toBase64(value),
  decode: fromBase64,
}

/** Output of a command: text is a string, bytes are `{ base64 }`. */
export const output: Field<Output<Encoding>> = {
  schema: dataSchema,
  encode: encodeOutput,
  decode: decodeOutput,
}

export function encodeOutput(value: Output<Encoding>, toBase64: ToBase64): WireData {
  return typeof value === 'string' ? value : { base64: toBase64(value) }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
const encoder = new TextEncoder()

/** The output in the caller's encoding, whichever way it was sent. */
export function decodeOutput(json: WireData, encoding: Encoding): Output<Encoding> {
  if (typeof json === 'string') return encoding === 'buffer' ? encoder.encode(json) : json
  if (typeof objectOf(json).base64 !== 'string') throw malformed()
  const bytes = fromBase64(json.base64)
  return encoding === 'buffer' ? bytes : decoder.decode(bytes)
}

export function list<T>(items: Field<T>): Field<T[]> {
  return {
    schema: { items },
    encode: (values, toBase64) => values.map((value) => encodeAs(items, value, toBase64)),
    decode(json: unknown, encoding) {
      if (Array.isArray(json)) return json.map((item) => decodeAs(items, item, encoding))
      throw malformed()
    },
  }
}

export function orNull<T>(field: Field<T>): Field<T | null> {
  return { ...absentAs(null, null, field), schema: { nullable: field } }
}

/** A member that can be absent. */
export function optional<T>(field: Field<T>): Field<T | undefined> {
  return { ...absentAs(undefined, undefined, field), isOptional: true }
}

/** Absent in JSON while it is null, which stands for unknown. */
export function unlessNull<T>(field: Field<T>): Field<T | null> {
  return { ...absentAs(null, undefined, field), isOptional: true }
}

/** A member that can be `absent`, which is `sent` in JSON. */
function absentAs<T, A>(absent: A, sent: null | undefined, field: Field<T>): Field<T | A> {
  return {
    ...field,
    encode: (value, toBase64) => (value === absent ? sent : encodeAs(field, value as T, toBase64)),
    decode: (json: unknown, encoding) => (json === sent ? absent : decodeAs(field, json, encoding)),
  }
}

function encodeAs<T>({ encode }: Field<T>, value: T, toBase64: ToBase64): unknown {
  return encode === undefined ? value : encode(value, toBase64)
}

function decodeAs<T>({ decode }: Field<T>, json: unknown, encoding: Encoding): T {
  return decode === undefined ? (json as T) : decode(json as never, encoding, undefined as never)
}

/** The error for a reply that is JSON, but not that of a server of this library. */
export function malformed(): SandboxError {
  return new SandboxError(
    'CONNECTION_FAILED',
    'the server answered with something other than this client expects: check the URL of the server, the proxies before ' +
      'it, and that server and client have the same version',
  )
}

/** The value, if it is an object. */
export function objectOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null) throw malformed()
  return value
}
