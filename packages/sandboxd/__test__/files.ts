/** Requests for files of sandboxd. */
import { expect } from 'vitest'
import type { Answer, Place } from './place.js'

export const FILES = '/v1/files'

/** The status of an answer and the code of its body. */
export function refusal({ status, json, headers }: Answer): [number, string] {
  const body = json() as { code: string; message: string }
  expect(Object.keys(body).sort()).toEqual(['code', 'message'])
  expect(body.message).toMatch(/./)
  expect(headers['content-type']).toBe('application/json')
  return [status, body.code]
}

export const put = (place: Place, target: string, body: Uint8Array | string = 'x', headers = {}) =>
  place.rest('PUT', `${FILES}/${target}`, body, headers)

export const get = (place: Place, target: string) => place.rest('GET', `${FILES}/${target}`)

/** A form with one part. */
export function form(
  name: string,
  content: Uint8Array | string,
  extra = '',
): { body: Buffer; headers: Record<string, string> } {
  const body = Buffer.concat([
    Buffer.from(
      `--limit\r\nContent-Disposition: form-data; name="note"\r\n\r\nignored\r\n` +
        `--limit\r\nContent-Disposition: form-data; name="${name}"${extra}\r\n\r\n`,
    ),
    Buffer.from(content as string),
    Buffer.from('\r\n--limit--\r\n'),
  ])
  return { body, headers: { 'content-type': 'multipart/form-data; boundary=limit' } }
}
