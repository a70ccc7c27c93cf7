/** Events are the same wherever their bytes were cut. */
import { describe, expect, it } from 'vitest'
import { readEvents, type ServerEvent } from '../../lib/backends/http/sse.js'
import { fromBase64, toBase64 } from '../../lib/base/base64.js'

const text =
  ':\n\nid: 1\ndata: {"a":"ä\u{1f41a}"}\n\n:\n\ndata: {"b":"x\\n\\ny"}\n\nid: 3\ndata: {"c":1}\n\ndata: {"cut'
const events = [
  { id: '1', data: { a: 'ä\u{1f41a}' } },
  { id: undefined, data: { b: 'x\n\ny' } },
  { id: '3', data: { c: 1 } },
]

/** The events of a body that arrives in these chunks. */
async function read(chunks: Uint8Array[]): Promise<ServerEvent[]> {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk)
      controller.close()
    },
  })
  const found: ServerEvent[] = []
  for await (const event of readEvents(body, new AbortController().signal)) found.push(event)
  return found
}

function cut(bytes: Uint8Array, size: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
    bytes.subarray(index * size, (index + 1) * size),
  )
}

describe('readEvents', () => {
  it('yields whole events wherever their bytes were cut', async () => {
    const bytes = new TextEncoder().encode(text)
    for (let size = 1; size <= bytes.length; size++) expect(await read(cut(bytes, size))).toEqual(events)
  })

  it('accepts the line ends and the fields that the standard allows', async () => {
    const bytes = new TextEncoder().encode('retry: 5\r\nevent: x\r\nid:7\r\ndata:{"a":\r\ndata:1}\r\n\r\n')
    expect(await read(cut(bytes, 1))).toEqual([{ id: '7', data: { a: 1 } }])
  })

  it('puts a large event together in time that grows with its size', async () => {
    const piece = new TextEncoder().encode('x'.repeat(16 * 1024))
    const pieces = Array.from({ length: 2000 }, () => piece)
    const encode = (part: string) => new TextEncoder().encode(part)
    const [event] = await read([encode('data: {"x":"'), ...pieces, encode('"}\n\n')])
    expect(event?.data.x).toHaveLength(2000 * 16 * 1024)
  })
})

describe('base64', () => {
  it('keeps all bytes', () => {
    for (const length of [0, 1, 2, 3, 255, 20_000]) {
      const bytes = Uint8Array.from({ length }, (_, index) => (index * 31) % 256)
      expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'))
      expect(fromBase64(toBase64(bytes))).toEqual(bytes)
    }
  })
})
