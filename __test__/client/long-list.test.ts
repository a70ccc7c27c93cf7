/** How a client reads a reply that is one list: in lines, or as one text. */
import { expect, it } from 'vitest'
import { readList } from '../../lib/backends/http/long-list.js'

const LINES = '  {"changes":[\n{"path":"a, \u00e9"},\n{"path":"]}"}\n]}'
const bytes = new TextEncoder().encode(LINES)

const read = (sent: Uint8Array, size = sent.length, stop = new AbortController().signal) => {
  const pieces = []
  for (let start = 0; start < sent.length; start += size) pieces.push(sent.subarray(start, start + size))
  return readList(new Response(ReadableStream.from(pieces)).body as ReadableStream<Uint8Array>, stop)
}

it('has the same items, whatever the pieces, and as the JSON of other readers', async () => {
  for (let size = 1; size <= bytes.length; size++) expect(await read(bytes, size)).toEqual(JSON.parse(LINES))
})

it('is nothing if it was cut off, wherever', async () => {
  for (let length = 0; length < bytes.length; length++)
    expect(await read(bytes.subarray(0, length), 5)).toBe(undefined)
  expect(await read(new TextEncoder().encode(`${LINES}]`))).toBe(undefined)
})

it('may be an error, a short list or a page of a proxy', async () => {
  const encoder = new TextEncoder()
  for (const text of ['{"changes":[]}', ` {"code":"NO_SPACE","message":"${'x'.repeat(1000)}"}`, '[\n1,\n2]'])
    expect(await read(encoder.encode(text), 7)).toEqual(JSON.parse(text))
  expect(await read(encoder.encode(`<html>\n${'x'.repeat(1000)}`))).toBe(undefined)
})

it('ends with the reason of its abort', async () => {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(bytes.slice(0, 30)),
  })
  const controller = new AbortController()
  const ended = readList(body, controller.signal)
  controller.abort('enough')
  await expect(ended).rejects.toBe('enough')
})
