/** JSON with the base64 of Node. */

import { decodeOptions } from '../protocol/codec.js'
import type { Encoding, Output } from '../public/index.js'
import { decodeData as decode, type WireData } from '../schema/command.js'
import type { OptionTable } from '../schema/kind.js'
import { encodeOutput, type Reply } from '../schema/reply.js'

/** A table of a reply as the server uses it. */
export type Sendable<T> = Pick<Reply<T>, 'schema' | 'encode'>

/** A reply or an event as JSON. */
export function encodeReply<T>({ encode }: Pick<Reply<T>, 'encode'>, value: T): object {
  return encode(value, toBase64)
}

export function encodeData(data: Output<Encoding>): WireData {
  return encodeOutput(data, toBase64)
}

export function decodeData(json: WireData): string | Uint8Array {
  return decode(json, fromBase64)
}

/** The options in the body of a request. */
export function optionsOf(table: OptionTable, body: Record<string, unknown>): Record<string, unknown> {
  return decodeOptions(table, body, fromBase64)
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

function fromBase64(text: string): Uint8Array {
  return Buffer.from(text, 'base64')
}
