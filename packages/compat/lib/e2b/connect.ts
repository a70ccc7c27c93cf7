/** Connect, the protocol of envd's calls: JSON over HTTP/1.1. https://connectrpc.com/docs/protocol */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { RPC_STATUS, RpcError, rpcError } from '../failure.js'
import type { Hosted } from '../hosted.js'
import {
  type Exchange,
  isMessage,
  type Message,
  MOST_BODY_BYTES,
  MOST_CONTENT_BYTES,
  readBody,
  sendJson,
  writePiece,
} from '../http.js'

export interface Call {
  hosted: Hosted
  headers: IncomingHttpHeaders
  /** Aborted when the client has left. */
  gone: AbortSignal
}

/** A call has one message in each direction, or a stream of them in one. `most`: bytes of the message, if not 1 MiB. */
export type Method =
  | { kind: 'unary'; most?: number; run(input: Message, call: Call): object | Promise<object> }
  | { kind: 'replies'; run(input: Message, call: Call): AsyncIterable<object> }
  | { kind: 'inputs'; run(inputs: AsyncIterable<Message>, call: Call): Promise<object> }

const HEAD_BYTES = 5
const COMPRESSED = 1
const LAST = 2

export function isStream(headers: IncomingHttpHeaders): boolean {
  return typeOf(headers) === 'application/connect+json'
}

function typeOf(headers: IncomingHttpHeaders): string {
  return (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
}

/** Runs a call, and replies. */
export async function serveCall(method: Method, hosted: Hosted, exchange: Exchange): Promise<void> {
  const { request, response } = exchange
  const wanted = method.kind === 'unary' ? 'application/json' : 'application/connect+json'
  if (typeOf(request.headers) !== wanted) {
    response.writeHead(415, { 'accept-post': wanted }).end()
    return void request.resume()
  }
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  const call = { hosted, headers: request.headers, gone: gone.signal }
  try {
    if (method.kind === 'unary') {
      const input = parse((await readBody(request, method.most)).toString('utf8'))
      return sendJson(response, 200, await method.run(input, call))
    }
    response.writeHead(200, { 'content-type': wanted })
    if (method.kind === 'inputs')
      await send(response, await method.run(messagesOf(request, MOST_CONTENT_BYTES), call))
    else await sendAll(response, method.run(await firstOf(request), call))
    if (!response.writableEnded) response.end(frame(LAST, {}))
  } catch (error) {
    refuseCall(exchange, rpcError(error))
  }
}

/** Replies with an error, in the form of the call. */
export function refuseCall({ request, response }: Exchange, { code, message }: RpcError): void {
  if (response.destroyed || response.writableEnded) return
  if (!isStream(request.headers)) sendJson(response, RPC_STATUS[code], { code, message })
  else {
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/connect+json' })
    response.end(frame(LAST, { error: { code, message } }))
  }
  request.resume()
}

async function sendAll(response: ServerResponse, replies: AsyncIterable<object>): Promise<void> {
  for await (const reply of replies) {
    if (response.destroyed || response.writableEnded) return
    await send(response, reply)
  }
}

function send(response: ServerResponse, message: object): Promise<void> {
  return writePiece(response, frame(0, message))
}

function frame(flags: number, message: object): Buffer {
  const text = JSON.stringify(message)
  const length = Buffer.byteLength(text)
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + length)
  bytes.writeUInt8(flags, 0)
  bytes.writeUInt32BE(length, 1)
  bytes.write(text, HEAD_BYTES)
  return bytes
}

async function firstOf(request: IncomingMessage): Promise<Message> {
  for await (const message of messagesOf(request, MOST_BODY_BYTES)) return message
  return {}
}

/** The messages of a stream, as they arrive. Throws RpcError for one of more than `most` bytes. */
async function* messagesOf(request: IncomingMessage, most: number): AsyncGenerator<Message> {
  let pieces: Buffer[] = []
  let length = 0
  let wanted = HEAD_BYTES
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    pieces.push(piece)
    length += piece.length
    if (length < wanted) continue
    let bytes = Buffer.concat(pieces)
    for (;;) {
      wanted = bytes.length < HEAD_BYTES ? HEAD_BYTES : HEAD_BYTES + bytes.readUInt32BE(1)
      if (wanted > HEAD_BYTES + most)
        throw new RpcError('resource_exhausted', `a message is larger than ${most} bytes`)
      if (bytes.length < wanted) break
      const flags = bytes.readUInt8(0)
      if (flags & COMPRESSED) throw new RpcError('unimplemented', 'compressed messages are not supported')
      if (flags & LAST) return
      yield parse(bytes.toString('utf8', HEAD_BYTES, wanted))
      bytes = bytes.subarray(wanted)
    }
    pieces = [bytes]
    length = bytes.length
  }
}

function parse(text: string): Message {
  const value: unknown = text === '' ? {} : JSON.parse(text)
  if (isMessage(value)) return value
  throw new RpcError('invalid_argument', 'a message must be an object of JSON')
}

/** The members of messages, checked. An absent member has the default of Protocol Buffers. */
export function textOf(message: Message, name: string): string {
  const value = message[name] ?? ''
  if (typeof value === 'string') return value
  throw new RpcError('invalid_argument', `${name} must be a string`)
}

export function flagOf(message: Message, name: string): boolean {
  return message[name] === true
}

/** Integers of 64 bits are strings in JSON. */
export function numberOf(message: Message, name: string): number {
  const value = Number(message[name] ?? 0)
  if (Number.isSafeInteger(value)) return value
  throw new RpcError('invalid_argument', `${name} must be an integer`)
}

export function messageOf(message: Message, name: string): Message | undefined {
  const value = message[name] ?? undefined
  if (value === undefined || isMessage(value)) return value
  throw new RpcError('invalid_argument', `${name} must be an object`)
}
