/** Requests and replies of JSON. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { clock, kinds } from 'nacre/internal'
import { HttpError } from './failure.js'

/** An object of JSON whose members are not checked yet. */
export type Message = { readonly [name: string]: unknown }

export interface Exchange {
  request: IncomingMessage
  response: ServerResponse
  url: URL
}

/** Milliseconds after which a refused request ends whose body has not arrived. */
const REFUSED_BODY_TIME = 5_000
const MOST_SECONDS = Math.floor(kinds.MAX_MILLISECONDS / 1000)
/** Of a request. Most of them are kept in memory for long. */
export const MOST_BODY_BYTES = 1024 * 1024
/** Of a request with code, input or many paths, which is not kept. */
export const MOST_CONTENT_BYTES = 32 * 1024 * 1024

/** Reads a whole body. Throws HttpError for more than `most` bytes. */
export async function readBody(request: IncomingMessage, most = MOST_BODY_BYTES): Promise<Buffer> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > most) throw new HttpError(413, `the body is larger than ${most} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** Reads an object of JSON; an empty body is an empty object. Throws HttpError. */
export async function readJson(request: IncomingMessage, most?: number): Promise<Message> {
  return parse((await readBody(request, most)).toString('utf8'))
}

export function parse(text: string): Message {
  let value: unknown
  try {
    value = text === '' ? {} : JSON.parse(text)
  } catch (error) {
    throw new HttpError(400, `the body is no JSON: ${(error as Error).message}`)
  }
  if (isMessage(value)) return value
  throw new HttpError(400, 'the body must be an object of JSON')
}

/** An object of strings, which may be absent. Throws HttpError. */
export function textsOf(given: Message, name: string): Record<string, string> {
  const value = given[name] ?? {}
  if (isMessage(value) && Object.values(value).every((text) => typeof text === 'string'))
    return { ...(value as Record<string, string>) }
  throw new HttpError(400, `${name} must be an object of strings`)
}

/** Of seconds, in milliseconds. `otherwise`: without any, in seconds. Throws HttpError. */
export function timeoutOf(given: unknown, otherwise = 0): number {
  const seconds = given === undefined ? otherwise : given
  if (typeof seconds === 'number' && seconds >= 0 && seconds <= MOST_SECONDS)
    return Math.round(seconds * 1000)
  throw new HttpError(400, `timeout must be 0 to ${MOST_SECONDS} seconds`)
}

export function isMessage(value: unknown): value is Message {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}

export function sendNothing(response: ServerResponse, status = 204): void {
  response.writeHead(status).end()
}

/**
 * Replies with an error. The connection stays open, and a body that was not read is discarded for some time: a client that
 * still sends would otherwise see a broken connection, and no reply.
 */
export function refuse(
  { request, response }: Pick<Exchange, 'request' | 'response'>,
  status: number,
  body: object,
): void {
  if (response.headersSent) return void response.destroy()
  sendJson(response, status, body)
  const timer = clock
    .setTimeout(() => {
      if (!request.complete) request.socket.destroy()
    }, REFUSED_BODY_TIME)
    .unref()
  request.once('close', () => clock.clearTimeout(timer)).resume()
}

/** Writes a piece of a reply. Resolves when there is room for more, or the client has left. */
export function writePiece(response: ServerResponse, piece: string | Uint8Array): Promise<void> {
  return new Promise((resolve) => {
    if (response.destroyed || response.writableEnded || response.write(piece)) return resolve()
    const done = () => {
      response.off('drain', done).off('close', done)
      resolve()
    }
    response.on('drain', done).on('close', done)
  })
}
