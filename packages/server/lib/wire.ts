/** JSON with the base64 of Node. */
import type { Encoding, Output } from 'nacre'
import type { kinds } from 'nacre/internal'
import { replies } from 'nacre/internal/server'

/** A table of a reply as the server uses it. */
export type Sendable<T> = Pick<replies.Body<T>, 'schema' | 'encode' | 'list'>

/** A reply or an event as JSON. */
export function encodeReply<T>({ encode }: Pick<replies.Body<T>, 'encode'>, value: T): object {
  return encode(value, toBase64)
}

export function encodeData(data: Output<Encoding>): kinds.WireData {
  return replies.encodeOutput(data, toBase64)
}

function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}

export function fromBase64(text: string): Uint8Array {
  return Buffer.from(text, 'base64')
}
